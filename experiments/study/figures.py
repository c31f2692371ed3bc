"""Figures of a study, readable in black and white, with units on every axis."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.study.study import Collection, Policy, Study
from experiments.study.tables import line_fronts

INK = {"ours": "0.0", "incumbent": "0.0", "peer": "0.45", "ceiling": "0.65"}
DASHES: dict[str, list[Any]] = {
    "ours": ["-", (0, (6, 1.5)), (0, (9, 1.5, 2, 1.5)), (0, (4, 1)), (0, (1, 1))],
    "incumbent": [(0, (2, 1.5))],
    "peer": ["-", (0, (5, 2)), (0, (5, 1.5, 1, 1.5)), (0, (1, 1)), (0, (8, 2, 1, 2, 1, 2))],
    "ceiling": [(0, (1, 2)), (0, (3, 2))],
}
MARKERS = {"ours": "oPX*", "incumbent": "s", "peer": "^vD<>ph", "ceiling": "+x1"}

LONG_LABEL = 32
"""Characters from which labels go below the axes, not beside them."""


@dataclass(frozen=True)
class Style:
    """Line style and marker of one policy."""

    ink: str
    dash: Any
    marker: str
    width: float
    face: str
    size: float


def styles(study: Study) -> dict[str, Style]:
    """Styles by policy. Kinds of policies differ in ink and width, policies of one kind in dashes and markers."""
    seen: dict[str, int] = {}
    found = {}
    for policy in study.policies:
        i = seen.setdefault(policy.kind, 0)
        seen[policy.kind] += 1
        dashes, markers = DASHES[policy.kind], MARKERS[policy.kind]
        ink = INK[policy.kind]
        main = policy.kind == "ours" and not i
        face = ink if main or policy.kind == "ceiling" else "white"
        width = 1.9 if main else 1.4 if policy.kind in ("ours", "incumbent") else 1.0
        size = 9.0 if policy.kind == "ours" and not main else 5.0
        found[policy.name] = Style(ink, dashes[i % len(dashes)], markers[i % len(markers)], width, face, size)
    return found


def draw_lines(file: Path, study: Study, collection: Collection) -> None:
    """Draw the headline measure against documents charged, with intervals of the reference and the first of ours."""
    figure, axes = _blank(study)
    look = styles(study)
    for policy in _banded(study):
        line = collection.lines[policy.name]
        hatched = {"facecolor": "none", "edgecolor": "0.45", "hatch": "///", "zorder": 2}
        band = {"color": "0.85", "zorder": 1} if policy.kind == "ours" else hatched
        label = f"{study.level:.0%} interval, {policy.label}"
        step = None if study.is_grid else "post"
        axes.fill_between(line.docs, line.low[:, 0], line.high[:, 0], step=step, linewidth=0.5, label=label, **band)
    drawn = "default" if study.is_grid else "steps-post"
    bottom, top = _frame(study, collection)
    for policy in study.policies:
        line = collection.lines[policy.name]
        cut = ", in part above the frame" if line.mean[:, 0].max() > top else ""
        zorder = 5 if look[policy.name].width > 1.5 else 4
        axes.plot(
            line.docs,
            line.mean[:, 0],
            label=policy.label + cut,
            zorder=zorder,
            drawstyle=drawn,
            **_pen(look[policy.name]),
        )
    label = f"full quality {collection.target[0]:.3f} ({collection.target_docs:.0f} documents)"
    axes.axhline(collection.target[0], color="0.3", linewidth=0.9, linestyle=(0, (1, 1)), zorder=3, label=label)
    axes.set_ylim(bottom, top)
    _finish(figure, axes, study, collection, "quality against cost")
    figure.savefig(file, dpi=150, metadata={"Software": None})


def draw_front(file: Path, study: Study, collection: Collection) -> None:
    """Draw every policy at every budget, and the Pareto front."""
    figure, axes = _blank(study)
    look, fronts = styles(study), line_fronts(study, collection)
    held = sorted(
        (float(docs), float(mean))
        for name, on_front in fronts.items()
        for docs, mean, keep in zip(
            collection.lines[name].docs, collection.lines[name].mean[:, 0], on_front, strict=True
        )
        if keep
    )
    axes.step(*zip(*held, strict=True), where="post", color="0.8", linewidth=5, label="front", zorder=1)
    for name, on_front in fronts.items():
        line, style = collection.lines[name], look[name]
        axes.scatter(
            line.docs,
            line.mean[:, 0],
            s=[(10 if keep else 4) * style.size for keep in on_front],
            marker=style.marker,
            facecolors=style.face,
            edgecolors=style.ink,
            linewidths=1.0,
            label=f"{study.by_name[name].label} ({sum(on_front)}/{len(on_front)})",
            zorder=4 if style.width > 1.5 else 3,
        )
    _finish(figure, axes, study, collection, "Pareto front (large markers; in brackets, a policy's points on it)")
    figure.savefig(file, dpi=150, metadata={"Software": None})


def _frame(study: Study, collection: Collection) -> tuple[float, float]:
    """Limits of the quality axis: all of the usable policies, and of the ceilings what does not flatten those."""
    usable = [collection.lines[policy.name] for policy in study.policies if policy.kind != "ceiling"]
    low = min(float(line.low[:, 0].min()) for line in usable)
    high = max(float(line.high[:, 0].max()) for line in usable)
    ceiling = max(float(line.mean[:, 0].max()) for line in collection.lines.values())
    margin = 0.03 * (high - low) or 0.01
    return low - margin, max(high, min(ceiling, high + 0.35 * (high - low))) + margin


def _banded(study: Study) -> list[Policy]:
    ours = [policy for policy in study.policies if policy.kind == "ours"][:1]
    return [study.by_name[study.reference], *(p for p in ours if p.name != study.reference)]


def _blank(study: Study) -> tuple[Any, Any]:
    from matplotlib import rcParams
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = 1 + len(study.policies) // 2
    extra = 0.25 * rows if _has_long_labels(study) else 0.0
    rcParams["hatch.linewidth"] = 0.5
    figure = Figure(figsize=(8.4, 4.6 + extra), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.add_subplot()


def _has_long_labels(study: Study) -> bool:
    return max(len(policy.label) for policy in study.policies) > LONG_LABEL


def _pen(style: Style) -> dict[str, Any]:
    return {
        "color": style.ink,
        "linestyle": style.dash,
        "marker": style.marker,
        "markersize": style.size,
        "markerfacecolor": style.face,
        "markeredgecolor": style.ink,
        "linewidth": style.width,
    }


def _finish(figure: Any, axes: Any, study: Study, collection: Collection, what: str) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

    if study.is_grid:
        budgets = [float(column) for column in study.columns]
        largest = max(float(line.docs.max()) for line in collection.lines.values())
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_locator(FixedLocator(_ticks(budgets, largest)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:.0f}"))
    axes.set_xlabel(f"documents reranked per query, mean{' (log scale)' if study.is_grid else ''}")
    axes.set_ylabel(f"mean {study.measures[0]} over {len(collection.queries)} queries")
    axes.set_title(f"{collection.name}: {what}", fontsize=10)
    axes.grid(visible=True, color="0.92", zorder=0)
    axes.set_axisbelow(True)
    place = {"loc": "outside lower center", "ncols": 2} if _has_long_labels(study) else {"loc": "outside right center"}
    figure.legend(**place, frameon=False, fontsize=8)


def _ticks(budgets: list[float], largest: float) -> list[float]:
    """The budgets that were reached, without those too close to the one before to be read."""
    ticks: list[float] = []
    for x in budgets:
        if x <= largest * 1.05 and (not ticks or x >= 1.25 * ticks[-1]):
            ticks.append(x)
    return ticks or budgets[:1]
