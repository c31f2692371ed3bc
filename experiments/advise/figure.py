"""The figure of the page: quality kept against documents, for screens, print and eyes that see colours differently."""

from __future__ import annotations

import io
from typing import Any

from experiments.advise.advice import Advice, Row
from experiments.advise.options import FIXED
from experiments.advise.words import target

_LOOK: dict[str, dict[str, Any]] = {
    FIXED: {"color": "#000000", "linestyle": (0, (2, 1.5)), "marker": "s"},
    "uncertainty": {"color": "#0072B2", "linestyle": "-", "marker": "o"},
    "settled": {"color": "#D55E00", "linestyle": (0, (6, 1.5)), "marker": "^"},
    "early_stop": {"color": "#009E73", "linestyle": (0, (4, 1, 1, 1)), "marker": "D"},
}
"""Okabe and Ito's colours, and a dash and a marker each for print in black."""


def svg(advice: Advice) -> str:
    """The figure as an SVG element without fonts or links of its own."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "ragtune", "font.family": "sans-serif", "font.size": 12}):
        figure = Figure(figsize=(7.2, 5.1), layout="constrained")
        _draw(figure.subplots(), advice)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :].replace("font: 12px 'sans-serif'", "font: 12px sans-serif")
    said = f"Quality kept against documents a query; recommended: {advice.recommended.label}"
    return text.replace("<svg", f'<svg role="img" aria-label="{said}"', 1)


def _draw(axes: Any, advice: Advice) -> None:
    best, kept = advice.recommended, advice.recommended.kept
    for curve in _shown(advice):
        first = curve[0]
        axes.plot(
            [row.cost["docs"] for row in curve],
            [100.0 * row.kept.value for row in curve],
            label="fixed depth" if first.policy == FIXED else first.label.rpartition(", ")[0],
            linewidth=2.2 if first.policy == best.policy else 1.4,
            markersize=4.5,
            zorder=4,
            **_LOOK[first.policy],
        )
    wanted = 100.0 if advice.is_worse else 100.0 * advice.quality
    text = "wanted: above the first stage" if advice.is_worse else f"wanted: {wanted:.4g}%"
    axes.axhline(wanted, color="0.35", linewidth=0.9, linestyle=(0, (1, 2)))
    axes.text(1.0, wanted, text, transform=axes.get_yaxis_transform(), ha="right", va="bottom", color="0.3")
    x, y, red = best.cost["docs"], 100.0 * kept.value, "#b00020"
    if kept.low is not None and kept.high is not None:
        ends = [[y - 100.0 * kept.low], [100.0 * kept.high - y]]
        axes.errorbar([x], [y], yerr=ends, color=red, capsize=5, linewidth=1.6, zorder=5)
    axes.scatter([x], [y], s=170, facecolors="none", edgecolors=red, linewidths=2, zorder=6, label="recommended")
    axes.set_xlabel("documents that the reranker reads, mean a query")
    axes.set_ylabel(f"{advice.measure}, % of {target(advice)}" if advice.judged else f"{advice.measure}, %")
    axes.set_xlim(left=0)
    axes.grid(color="0.9", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.figure.legend(fontsize=10.5, frameon=False, loc="outside lower center", ncols=2)


def _shown(advice: Advice) -> list[list[Row]]:
    """Of each policy the recommended batches, else the smallest."""
    found: dict[str, list[Row]] = {}
    batches = {row.policy: row.batch_size for row in reversed(advice.options)}
    batches[advice.recommended.policy] = advice.recommended.batch_size
    for row in advice.options:
        if row.batch_size == batches[row.policy]:
            found.setdefault(row.policy, []).append(row)
    return list(found.values())
