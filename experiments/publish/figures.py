"""Figures: colour-blind safe, readable in black and white, every axis labelled with its unit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from experiments.evaluate.curves import Curve, FloatArray
from experiments.evaluate.record import UNITS, told
from experiments.publish.palette import styles_of
from ragtune.core.units import MONEY, TOKENS
from ragtune.core.units import UNITS as ALL

_FIXED, _OURS = styles_of(["incumbent", "ours"])


def draw_curve(file: Path, curve: Curve, *, title: str, incumbent: FloatArray | None = None) -> None:
    """Draw the headline measure and its bootstrap interval against the documents reranked.

    Where a run costs money, two more panels draw it against tokens and dollars, and one each against FLOPs, search
    units and energy where they are known.

    Args:
        file: the PNG to write.
        curve: the run's.
        title: what stands above each panel.
        incumbent: shape (n, 2), numbers of documents and what fixed depth reaches with them; None draws none.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels = [("documents reranked per query (at most)", curve.docs.astype(float))]
    panels += [(f"{name} per query (mean)", curve.costs[:, UNITS.index(unit)]) for name, unit in _further(curve)]
    figure = Figure(figsize=(6.4 * len(panels), 4.6))
    FigureCanvasAgg(figure)
    for i, (label, costs) in enumerate(panels):
        axes = figure.add_axes(((i + 0.11) / len(panels), 0.27, 0.86 / len(panels), 0.66))
        _draw(axes, costs, curve)
        if i == 0 and incumbent is not None:
            axes.plot(
                *incumbent.T,
                color=_FIXED.ink,
                linestyle=_FIXED.dash,
                linewidth=1.2,
                label="fixed depth, from the first stage's order",
            )
        axes.set_xlabel(label)
        axes.set_title(title, fontsize=10, y=1.0)
        axes.legend(loc="upper center", bbox_to_anchor=(0.45, -0.15), ncols=2, frameon=False, fontsize=9)
    figure.savefig(file, dpi=120, metadata={"Software": None})


def _further(curve: Curve) -> list[tuple[str, str]]:
    """What else is paid in, with its name on an axis."""
    costs_money = curve.costs[:, UNITS.index(MONEY.name)].any()
    money = [("tokens", TOKENS.name), ("US dollars", MONEY.name)] if costs_money else []
    return money + [(ALL[i].label, ALL[i].name) for i in told(curve.costs) if not ALL[i].is_always_told]


def _draw(axes: Any, costs: np.ndarray[Any, np.dtype[np.float64]], curve: Curve) -> None:
    mean, ink = curve.mean[:, 0], _OURS.ink
    interval = {"facecolor": ink, "alpha": 0.18, "linewidth": 0, "label": "95% interval"}
    axes.fill_between(costs, curve.low[:, 0], curve.high[:, 0], step="post", **interval)
    every = max(1, len(costs) // 25)
    marks = {"marker": _OURS.marker, "markersize": 3.5, "markevery": every}
    axes.step(costs, mean, where="post", color=ink, label="this run", **marks)
    axes.annotate(f"{mean[-1]:.3f}", (costs[-1], mean[-1]), textcoords="offset points", xytext=(-4, 8), ha="right")
    start = {"color": ink, "marker": _OURS.marker, "markerfacecolor": "white", "linestyle": "none", "zorder": 5}
    axes.plot(costs[:1], mean[:1], label=f"{mean[0]:.3f}: the order before anything is reranked", **start)
    axes.margins(y=0.1)
    axes.set_ylabel(f"mean {curve.measures[0]} over {len(curve.per_query)} queries")
    axes.grid(visible=True, color="0.92")
