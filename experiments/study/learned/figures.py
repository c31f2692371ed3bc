"""Draws learning curves: quality by the number of queries learned from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.publish.palette import BLUE, GREEN, VERMILION
from experiments.study.learned.fit import MODELS
from experiments.study.learned.replays import BUDGETS, HISTORY, USES
from experiments.study.learned.tables import ALL, PRIOR, Row
from experiments.study.study import Policy, Study

_INKS = dict(zip(BUDGETS, (VERMILION, GREEN, BLUE), strict=True))
_PENS: dict[str, dict[str, Any]] = {
    MODELS[0]: {"linestyle": "-", "marker": "o"},
    MODELS[1]: {"linestyle": (0, (4, 2)), "marker": "^", "markerfacecolor": "white"},
}


def draw_curves(file: Path, study: Study, base: Policy, rows: Sequence[Row]) -> None:
    """Draw a row of panels for each collection that is long enough, a column for each use; budgets have a colour each.

    Args:
        file: the PNG to write.
        study: what was measured.
        base: the policy whose prior is learned.
        rows: the comparisons.
    """
    from matplotlib.figure import Figure

    mine = [row for row in rows if (row.base, row.evaluated_on, row.against) == (base.name, "rest", PRIOR)]
    mine = [row for row in mine if row.collection != ALL]
    names = list(dict.fromkeys(row.collection for row in mine))
    if not names:
        return
    figure = Figure(figsize=(7.0, 1.2 + 1.5 * len(names)), layout="constrained")
    panels = figure.subplots(len(names), len(USES), sharex=True, sharey="row", squeeze=False)
    for name, line in zip(names, panels, strict=True):
        for use, axes in zip(USES, line, strict=True):
            _panel(axes, [row for row in mine if (row.collection, row.use) == (name, use)])
            queries = next(row.queries for row in mine if row.collection == name)
            axes.set_title(f"{name}, {use}: {queries} queries", fontsize=8)
    for axes in panels[-1]:
        axes.set_xlabel("queries learned from", fontsize=8)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(BUDGETS), frameon=False, fontsize=7)
    figure.suptitle(f"{base.label}: mean {study.measures[0]} after learning", fontsize=10)
    figure.savefig(file, dpi=120, metadata={"Software": None})


def _panel(axes: Any, rows: Sequence[Row]) -> None:
    for model in MODELS:
        for budget in BUDGETS:
            mine = [row for row in rows if (row.model, row.budget) == (model, budget)]
            places = [0, *(1 + HISTORY.index(int(row.learned_from)) for row in mine)]
            heights = [mine[0].reference, *(row.learned for row in mine)]
            pen = {"color": _INKS[budget], "linewidth": 1.2, "markersize": 3.5, **_PENS[model]}
            axes.plot(places, heights, label=f"{model}, {budget} documents", **pen)
    axes.set_xticks(range(len(HISTORY) + 1), ["0", *map(str, HISTORY)])
    axes.tick_params(labelsize=7)
    axes.grid(visible=True, color="0.92")
    axes.set_axisbelow(True)
