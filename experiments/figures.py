"""Figures: readable in black and white, every axis labelled with its unit."""

from __future__ import annotations

from pathlib import Path

from experiments.curves import Curve


def draw_curve(file: Path, curve: Curve, *, title: str) -> None:
    """The headline measure against documents reranked, with its bootstrap interval."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.0))
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.11, 0.13, 0.86, 0.78))
    mean = curve.mean[:, 0]
    axes.fill_between(curve.docs, curve.low[:, 0], curve.high[:, 0], step="post", color="0.85", label="95% interval")
    axes.step(curve.docs, mean, where="post", color="black", marker="o", markersize=3.5, label="mean")
    axes.annotate(f"{mean[-1]:.3f}", (curve.docs[-1], mean[-1]), textcoords="offset points", xytext=(-4, 8), ha="right")
    axes.annotate(f"{mean[0]:.3f}", (curve.docs[0], mean[0]), textcoords="offset points", xytext=(6, -12))
    axes.set_xlabel("documents reranked per query (at most)")
    axes.set_ylabel(f"mean {curve.measures[0]} over {len(curve.per_query)} queries")
    axes.set_title(title, fontsize=10)
    axes.grid(visible=True, color="0.92")
    axes.legend(loc="lower right", frameon=False)
    figure.savefig(file, dpi=120, metadata={"Software": None})
