"""python scripts/readme_figure.py [--data ../shared/data]: draws results/readme-curve.png and prints its figures."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from experiments.config.compose import compose
from experiments.config.paths import PROJECT_ROOT
from experiments.evaluate.curves import Curve, Steps, curve
from experiments.evaluate.measures import Measures
from experiments.evaluate.record import UNITS, QueryRecord
from experiments.evaluate.significance import Bootstrap
from experiments.publish.figures import styles_of
from experiments.replay.build import build_session


def main() -> int:
    """Draw the figure and print its numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=PROJECT_ROOT.parent / "shared" / "data")
    arguments = parser.parse_args()
    figures = _showcase(arguments.data, PROJECT_ROOT / "results" / "readme-curve.png")
    sys.stdout.write(json.dumps(figures) + "\n")
    return 0


def _showcase(data: Path, file: Path) -> dict[str, float]:
    """Draw nDCG@10 against documents on dl19 (bm25, monoT5) and return the figures that the caption names."""
    fixed, ours = _curve(data, "fixed_depth"), _curve(data, "settled")
    full = float(fixed.mean[-1, 0])
    reached = ours.docs_to(1.0, full)
    _draw(file, fixed, ours, full, reached)
    return {
        "fixed_depth_100": full,
        "ours_reaches_it_at": float(reached or -1),
        "ours_final": float(ours.mean[-1, 0]),
        "ours_mean_documents": float(ours.costs[-1, UNITS.index("docs")]),
    }


def _curve(data: Path, policy: str) -> Curve:
    collection = data / "dl19"
    config = compose(
        [
            "dataset=beir",
            f"dataset.path={collection}",
            "retriever=runs",
            f"retriever.paths={collection / 'runs' / 'bm25.run'}",
            f"reranker.scores={collection / 'scores' / 'monot5-base.run'}",
            "reranker.scale=log_prob",
            "budget=generous",
            f"experiment={policy}",
        ]
    )
    session = build_session(config)
    queries = session.dataset.queries
    records = [QueryRecord.of(session.controller.run(queries[q], query_id=q)) for q in session.dataset.judged]
    measures = Measures(["nDCG@10"], session.dataset.qrels)
    steps = Steps.of(records, measures, fixed_depth=policy == "fixed_depth")
    return curve(steps, measures.names, Bootstrap(resamples=1000, level=0.95, seed=0))


def _draw(file: Path, fixed: Curve, ours: Curve, full: float, reached: int | None) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.6, 4.4))
    axes = figure.add_axes((0.09, 0.12, 0.89, 0.80))
    lines = (
        (fixed, "fixed depth"),
        (ours, "experiment=settled"),
    )
    for (drawn, label), style in zip(lines, styles_of(["baseline", "ours"]), strict=True):
        interval = drawn.low[:, 0], drawn.high[:, 0]
        axes.fill_between(drawn.docs, *interval, step="post", color=style.ink, alpha=0.15, lw=0)
        axes.step(drawn.docs, drawn.mean[:, 0], where="post", color=style.ink, ls=style.dash, label=label)
    axes.axhline(full, color="0.35", ls=":", lw=1)
    note: dict[str, Any] = {"fontsize": 9, "arrowprops": {"arrowstyle": "->", "color": "0.3"}}
    axes.annotate(f"(1) fixed depth needs 100 documents\nfor {full:.3f}", (99, full), (57, full - 0.12), **note)
    if reached is not None:
        axes.annotate(f"(2) ours is there after {reached}", (reached, full), (reached + 9, full - 0.085), **note)
    last, final, spent = int(ours.docs[-1]), float(ours.mean[-1, 0]), float(ours.costs[-1, UNITS.index("docs")])
    axes.plot([last], [final], marker="o", color=styles_of(["ours"])[0].ink, ms=4)
    axes.annotate(
        f"(3) and has stopped by itself, after\n{spent:.1f} documents a query on average",
        (last, final),
        (98, full + 0.055),
        ha="right",
        **note,
    )
    axes.set_xlabel("documents reranked per query")
    axes.set_ylabel("mean nDCG@10, 43 queries")
    axes.set_title("TREC DL 2019 passages, BM25 top 100, monoT5 scores (bands: 95% bootstrap)", fontsize=10)
    axes.set_xlim(0, 100)
    axes.grid(visible=True, color="0.93")
    axes.legend(loc="lower right", frameon=False)
    figure.savefig(file, dpi=130, metadata={"Software": None})


if __name__ == "__main__":
    sys.exit(main())
