"""Draws a claim: for each collection the worst comparison with its interval, and the line that it must not cross."""

from __future__ import annotations

from pathlib import Path

from experiments.publish.figures import BLACK, VERMILION
from experiments.study.protocol.claims import Held
from experiments.study.protocol.verdicts import Verdict
from experiments.study.study import Study


def draw_claim(file: Path, study: Study, found: Held) -> None:
    """Draw the differences of a claim that allows a margin, the worst collection on top.

    Collections that fall short as measured have a filled marker; those that fail by the tests have a colour.

    Args:
        file: the PNG to write.
        study: what was measured.
        found: the claim.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 1.0 + 0.19 * len(found.order)), layout="constrained")
    axes = figure.subplots()
    for place, name in enumerate(reversed(found.order)):
        mine = found.rows[found.rows["collection"] == name]
        row = mine.loc[mine["difference"].idxmin()]
        ink = VERMILION if found.findings[name].verdict is Verdict.FAILS else BLACK
        axes.plot([row["low"], row["high"]], [place, place], color=ink, linewidth=1)
        fill = "full" if name in found.short else "none"
        axes.plot([row["difference"]], [place], marker="o", color=ink, markersize=4, fillstyle=fill)
    axes.axvline(0.0, color="0.6", linewidth=0.8)
    axes.axvline(-found.claim.margin, color=VERMILION, linewidth=1, linestyle=(0, (4, 2)))
    axes.set_yticks(range(len(found.order)), list(reversed(found.order)), fontsize=7)
    axes.set_ylim(-0.7, len(found.order) - 0.3)
    axes.set_xlabel(
        f"difference in {study.measures[0]}, worst comparison of each collection, {study.level:.0%} interval; "
        f"dashed: {-found.claim.margin:+.3f}",
        fontsize=8,
    )
    axes.tick_params(axis="x", labelsize=8)
    axes.grid(visible=True, axis="x", color="0.93")
    axes.set_axisbelow(True)
    figure.savefig(file, dpi=120, metadata={"Software": None})
