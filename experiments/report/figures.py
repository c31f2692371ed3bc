"""Figures of a study: colour-blind safe, readable in black and white and at the width of a telephone."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill
from typing import Any

from experiments.publish.figures import BLACK, Style, styles_of
from experiments.report.study import Study, StudyCollection, StudyPolicy
from ragtune.core.units import DOCS

WIDTH = 6.0
"""Inches. On a page of 420 pixels the smallest letters are then 9 pixels high."""

SMALL = 8.5
"""Points of the smallest letters."""


def styles(study: Study) -> dict[str, Style]:
    """Styles by policy: no two differ by colour alone."""
    found = styles_of([policy.kind for policy in study.policies])
    return {policy.name: style for policy, style in zip(study.policies, found, strict=True)}


def draw_lines(file: Path, study: Study, collection: StudyCollection) -> None:
    """Draw the headline measure against cost, in a panel for each policy with the reference beside it, as a PNG."""
    from matplotlib import rcParams
    from matplotlib.figure import Figure

    rcParams["hatch.linewidth"] = 0.3
    others = [policy for policy in study.policies if policy.name != study.reference] or list(study.policies)
    columns = min(2, len(others))
    rows = -(-len(others) // columns)
    figure = Figure(figsize=(WIDTH, 1.2 + (1.75 if columns == 2 else 3.0) * rows), layout="constrained")
    panels = list(figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flat)
    look, frame = styles(study), _frame(study, collection)
    for axes, policy in zip(panels, others, strict=False):
        _panel(axes, study, collection, policy, look)
        axes.set_title(fill(policy.label, 36 * (3 - columns)), fontsize=9, color=BLACK)
        axes.set_ylim(frame)
    for axes in panels[len(others) :]:
        axes.set_axis_off()
        panels[len(others) - columns].xaxis.set_tick_params(labelbottom=True)
    named = [pair for axes in panels for pair in zip(*axes.get_legend_handles_labels(), strict=True)]
    handles = {fill(label, 80): handle for handle, label in named}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=1, frameon=False, fontsize=SMALL)
    what = "documents reranked" if study.unit is DOCS else study.noun
    cost = f"{what} per query, mean{' (log scale)' if study.is_grid else ''}"
    vertical = f"mean {study.measures[0]} over {len(collection.queries)} queries"
    figure.suptitle(f"{collection.name}: {vertical}\nby {cost}", fontsize=10)
    figure.savefig(file, dpi=120, metadata={"Software": None})


def _panel(axes: Any, study: Study, collection: StudyCollection, policy: StudyPolicy, look: dict[str, Style]) -> None:
    reference = study.by_name[study.reference]
    for drawn, kind in ((reference, "reference"), (policy, "own")):
        line, style = collection.curves[drawn.name], look[drawn.name]
        shade = {"facecolor": style.ink, "alpha": 0.18} if kind == "own" else {"facecolor": "none", "hatch": "////"}
        kept = line.spent > 0 if study.is_grid else slice(None)  # a log axis has no place for 0
        spent, mean, low, high = line.spent[kept], line.mean[kept, 0], line.low[kept, 0], line.high[kept, 0]
        axes.fill_between(
            spent, low, high, step="post" if line.steps else None, edgecolor="0.6", linewidth=0.4, **shade
        )
        axes.plot(
            spent,
            mean,
            drawstyle="steps-post" if line.steps else "default",
            label=None if kind == "own" else f"{drawn.label} (hatched)",
            color=style.ink,
            linestyle=style.dash,
            linewidth=1.5,
            marker=style.marker if kind == "own" and not line.steps else None,
            markersize=4.5,
            zorder=4,
        )
    number = "{:.0f}" if study.unit.is_count else study.unit.number
    cost = f"{number.format(collection.target_spent)} {study.noun}"
    full = f"full quality: {study.target_label}, {collection.target[0]:.3f} with {cost}"
    axes.axhline(collection.target[0], color="0.35", linewidth=1, linestyle=(0, (1, 1.5)), zorder=3, label=full)
    if collection.start is not None:
        start = f"0 {study.noun}: what {reference.label} orders before anything is reranked, {collection.start[0]:.3f}"
        axes.axhline(collection.start[0], color="0.35", linewidth=1, linestyle=(0, (6, 2, 1, 2)), zorder=3, label=start)
    _cost_axis(axes, study, collection)


def _frame(study: Study, collection: StudyCollection) -> tuple[float, float]:
    """Limits of the quality axis: all of the usable policies, and of the ceilings what does not flatten those."""
    usable = [collection.curves[policy.name] for policy in study.policies if policy.kind != "ceiling"]
    low = min(float(line.low[:, 0].min()) for line in usable)
    high = max(float(line.high[:, 0].max()) for line in usable)
    low = low if collection.start is None else min(low, float(collection.start[0]))
    ceiling = max(float(line.mean[:, 0].max()) for line in collection.curves.values())
    margin = 0.03 * (high - low) or 0.01
    return low - margin, max(high, min(ceiling, high + 0.35 * (high - low))) + margin


def _cost_axis(axes: Any, study: Study, collection: StudyCollection) -> None:
    from matplotlib.ticker import LogLocator, StrMethodFormatter

    if study.is_grid and any(line.spent.any() for line in collection.curves.values()):
        axes.set_xscale("log", base=2, nonpositive="mask")  # a budget too small for one batch has no place here
        axes.xaxis.set_major_locator(LogLocator(base=2, numticks=9))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.tick_params(labelsize=SMALL)
    axes.grid(visible=True, color="0.92", zorder=0)
    axes.set_axisbelow(True)
