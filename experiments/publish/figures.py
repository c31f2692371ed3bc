"""Figures: colour-blind safe, readable in black and white, every axis labelled with its unit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from experiments.evaluate.summary import Summary

Column = Sequence[Any] | NDArray[Any]
"""Texts, truth values, integers, or numbers; where one is missing, None or NaN."""

Columns = dict[str, Column]

BLACK, BLUE, GREEN, SKY = "#000000", "#0072B2", "#009E73", "#56B4E9"
VERMILION, PURPLE, ORANGE, GREY = "#D55E00", "#CC79A7", "#E69F00", "#767676"

INKS = {
    "baseline": (BLACK,),
    "ours": (BLUE, GREEN, SKY),
    "peer": (VERMILION, PURPLE, ORANGE),
    "ceiling": (GREY,),
}
DASHES: dict[str, tuple[Any, ...]] = {
    "baseline": ((0, (4, 2)),),
    "ours": ("-", (0, (7, 2)), (0, (7, 2, 2, 2)), (0, (2, 1.5))),
    "peer": ((0, (5, 1.5)), (0, (2, 1.5)), (0, (8, 2, 2, 2)), "-"),
    "ceiling": ((0, (1, 2)), (0, (3, 3))),
}


class Style(NamedTuple):
    """Colour and dash of one line."""

    ink: str
    dash: Any


def styles_of(kinds: Sequence[str]) -> list[Style]:
    """Styles of lines of the given kinds; cycles of different lengths keep 12 lines of a kind distinct."""
    found = []
    for i, kind in enumerate(kinds):
        turn, inks, dashes = kinds[:i].count(kind), INKS[kind], DASHES[kind]
        found.append(Style(inks[turn % len(inks)], dashes[turn % len(dashes)]))
    return found


FIXED_DEPTH = "fixed_depth"
"""Column of a curve's table with what fixed depth reaches, where that is known."""

_FIXED, _OURS = styles_of(["baseline", "ours"])


def draw_curve(file: Path, curve: Columns, summary: Summary) -> None:
    """Draw the headline and its interval against the documents reranked."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.6))
    axes: Any = figure.add_axes((0.11, 0.27, 0.86, 0.66))
    costs, headline, ink = curve["documents"], next(iter(summary.measures)), _OURS.ink
    mean = curve[headline]
    interval = {"facecolor": ink, "alpha": 0.18, "linewidth": 0, "label": "95% interval"}
    axes.fill_between(costs, curve[f"{headline}_low"], curve[f"{headline}_high"], step="post", **interval)
    every = max(1, len(costs) // 25)
    marks = {"marker": "o", "markersize": 3.5, "markevery": every}
    axes.step(costs, mean, where="post", color=ink, label="this run", **marks)
    axes.annotate(f"{mean[-1]:.3f}", (costs[-1], mean[-1]), textcoords="offset points", xytext=(-4, 8), ha="right")
    start = {"markerfacecolor": "white", "linestyle": "none", "zorder": 5}
    first_stage = summary.first_stage.get(headline, mean[0])
    is_apart = f"{first_stage:.3f}" != f"{mean[0]:.3f}"
    own = "the policy's own order" if is_apart else "the first stage alone"
    axes.plot(costs[:1], mean[:1], label=f"{mean[0]:.3f}: {own}", color=ink, marker="o", **start)
    if is_apart:
        label = f"{first_stage:.3f}: the first stage alone"
        axes.plot(costs[:1], [first_stage], label=label, color=_FIXED.ink, marker="s", **start)
    axes.margins(y=0.1)
    axes.set_ylabel(f"mean {headline} over {summary.queries} queries")
    axes.grid(visible=True, color="0.92")
    if FIXED_DEPTH in curve:
        points = zip(costs, curve[FIXED_DEPTH], strict=True)
        known = zip(*(point for point in points if None not in point), strict=True)
        dashed = {"color": _FIXED.ink, "linestyle": _FIXED.dash, "linewidth": 1.2}
        axes.plot(*known, label="fixed depth, from the first stage's order", **dashed)
    axes.set_xlabel("documents reranked per query (at most)")
    axes.set_title(f"{summary.dataset}: {summary.policy}", fontsize=10, y=1.0)
    axes.legend(loc="upper center", bbox_to_anchor=(0.45, -0.15), ncols=2, frameon=False, fontsize=9)
    figure.savefig(file, dpi=120, metadata={"Software": None})
