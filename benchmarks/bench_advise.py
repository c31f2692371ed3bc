"""python benchmarks/bench_advise.py [--data ../shared/data] [--halvings 200]: does advice hold on other queries?

The queries of each collection are halved at random: ``ragtune advise`` chooses on one half, and what it promised is
looked at on the other. A row of Markdown each: how often what was kept lay in the interval, how often it was at least
the share that was asked for, and what was kept and saved on average. The table of docs/howto/advise.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from experiments.config.compose import compose
from experiments.study.advise.choose import bounds, choose, halvings, options_of
from experiments.study.advise.prices import Prices
from experiments.study.advise.replays import Replays, replay_all

COLLECTIONS = {"nfcorpus": ("ce", "identity"), "cranfield": ("ce", "identity"), "dl19": ("monot5-base", "log_prob")}
QUALITIES = (0.99, 0.97, 0.95, 0.9)
HEADS = ("collection", "queries", "keep", "advice on all queries", "in its interval", "kept it", "kept", "saved")


def overrides(data: Path, name: str, scores: str, scale: str) -> list[str]:
    """Overrides of ``run.py`` for a collection beside the checkout, with a score table of that scale."""
    folder = data / name
    return [
        "dataset=beir",
        f"dataset.path={folder}",
        "retriever=runs",
        f"retriever.paths={folder}/runs/bm25.run",
        f"reranker.scores={folder}/scores/{scores}.run",
        f"reranker.scale={scale}",
    ]


def rows(replays: Replays, count: int) -> Iterator[str]:
    """A row of the table for each share to be kept."""
    options = options_of(replays, Prices(), "docs")
    for quality in QUALITIES:
        known = bounds(options, resamples=1000, level=0.95, seed=0)
        chosen = options.options[choose(options, known, quality)]
        trials = list(halvings(options, quality, count, resamples=500, level=0.95, seed=0))
        cells = (
            replays.dataset.name.partition("/")[0],
            len(replays.queries),
            f"{quality:.0%}",
            chosen.label,
            f"{np.mean([one.holds for one in trials]):.1%}",
            f"{np.mean([one.kept >= quality for one in trials]):.1%}",
            f"{np.mean([one.kept for one in trials]):.1%}",
            f"{np.mean([one.saved for one in trials]):.0%}",
        )
        yield f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of the collections; without it, the shipped one alone")
    parser.add_argument("--halvings", type=int, default=200)
    arguments = parser.parse_args()
    chosen = [
        ["dataset=demo"],
        *(overrides(arguments.data, name, *table) for name, table in COLLECTIONS.items() if arguments.data),
    ]
    print(f"| {' | '.join(HEADS)} |\n|{'---|' * len(HEADS)}")
    for one in chosen:
        replays = replay_all(compose(one), ["nDCG@10"], 1, lambda done, total: None)
        print("\n".join(rows(replays, arguments.halvings)), flush=True)


if __name__ == "__main__":
    main()
