"""python benchmarks/bench_advise.py [--data ../shared/data] [--halvings 200]: does advice hold on other queries?

The queries of each collection are halved at random: trust and option are chosen on one half as ``ragtune advise`` does,
and what it promised is looked at on the other. A row of Markdown each: how often what was kept lay in the interval, how
often it was at least the share that was asked for (of the first stage alone, all of it, where that is the target), and
what was kept and saved on average. The table of docs/howto/advise.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from experiments.advise.choose import Options, bounds, choose, options_of
from experiments.advise.options import CANDIDATES, TRUSTS
from experiments.advise.replays import Replays, choose_setting, replay_all
from experiments.config.compose import compose
from experiments.report.prices import Prices
from ragtune.core.policy.defaults import TRUST
from ragtune.estimators.interpolation import WEIGHT

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


def replays_by_trust(one: list[str]) -> dict[float, Replays]:
    """Every policy that can be recommended, with each trust that advise chooses among."""
    return {
        trust: replay_all(compose(one), ["nDCG@10"], 1, lambda done, total: None, CANDIDATES, [trust], [WEIGHT])
        for trust in TRUSTS
    }


def halves(queries: int, count: int, seed: int) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Random halves of the queries, by their positions, ``count`` times."""
    draws = np.random.default_rng(seed)
    for _ in range(count):
        drawn = draws.permutation(queries)
        yield np.sort(drawn[: queries // 2]), np.sort(drawn[queries // 2 :])


def trial(
    options: Options, one: NDArray[np.intp], other: NDArray[np.intp], quality: float
) -> tuple[bool, bool, float, float]:
    """Choose by some queries: whether the others keep what was expected and what was wanted; share kept, cost saved."""
    chosen_by, others = options.of(one), options.of(other)
    known = bounds(chosen_by, resamples=500, level=0.95, seed=0)
    chosen = choose(chosen_by, known, quality)
    kept = float(others.values[:, chosen].mean() / max(float(others.values[:, known.target].mean()), 1e-12))
    costs = others.costs[others.unit].mean(axis=0)
    wanted = quality if known.target == others.full else 1.0
    half = known.factor * float(known.spread[chosen]) * (1.0 / len(one) + 1.0 / len(other)) ** 0.5
    return (
        abs(kept - known.kept[chosen]) <= half + 1e-12,
        kept >= wanted,
        kept,
        1.0 - costs[chosen] / costs[others.full],
    )


def rows(replays: dict[float, Replays], count: int) -> Iterator[str]:
    """A row of the table for each share to be kept. The trust is chosen as the option is: by each half alone."""
    options = {trust: options_of(one, Prices(), "docs") for trust, one in replays.items()}
    means = {trust: one.curves["uncertainty/5"].values[:, :, 0].mean(axis=1) for trust, one in replays.items()}
    queries = len(means[TRUSTS[0]])

    def trust_of(some: NDArray[np.intp]) -> float:
        return choose_setting({trust: mean[some] for trust, mean in means.items()}, TRUST, level=0.95, seed=0).value

    trusts = [(one, other, trust_of(one)) for one, other in halves(queries, count, 0)]
    everywhere = trust_of(np.arange(queries))
    for quality in QUALITIES:
        known = bounds(options[everywhere], resamples=1000, level=0.95, seed=0)
        chosen = options[everywhere].options[choose(options[everywhere], known, quality)]
        trials = [trial(options[trust], one, other, quality) for one, other, trust in trusts]
        held, promise, kept, saved = np.mean(trials, axis=0)
        trust = "" if chosen.candidate.trust is None else f", trust {chosen.candidate.trust:g}"
        cells = (
            replays[everywhere].dataset.name.partition("/")[0],
            queries,
            f"{quality:.0%}",
            f"{chosen.label}{trust}",
            f"{held:.1%}",
            f"{promise:.1%}",
            f"{kept:.1%}",
            f"{saved:.0%}",
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
        print("\n".join(rows(replays_by_trust(one), arguments.halvings)), flush=True)


if __name__ == "__main__":
    main()
