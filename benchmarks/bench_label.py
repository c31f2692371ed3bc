"""python benchmarks/bench_label.py [--data ../shared/data] [--simulations 300]: how many labels until a right decision?

The judgments of each collection are hidden and revealed one by one, to ``ragtune label`` and to a labeller of random
pairs. Right is the sign of the difference in nDCG@10 by all judgments, over all judged queries; documents that nobody
judged have grade 0. A row of Markdown each. The table of docs/howto/label.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from bench_advise import overrides

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from experiments.config.compose import compose
from experiments.evaluate.curves import FloatArray
from experiments.evaluate.measures import Measures
from experiments.label.plan import both_orders, changes, decide, make_plan
from experiments.replay.build import load_dataset

COLLECTIONS = {
    "nfcorpus": ("ce", "identity"),
    "cranfield": ("ce", "identity"),
    "dl19": ("monot5-base", "log_prob"),
    "bright-biology": ("monot5-3b", "log_prob"),
    "bright-stackoverflow": ("monot5-3b", "log_prob"),
    "cacm": ("ce", "identity"),
    "medquad-liveqa": ("minilm", "cosine"),
}
"""Score table and scale. The last three were not looked at while the rule was chosen."""
HEADS = (
    "collection, reranker",
    "queries",
    "difference in nDCG@10",
    "labels for 90% right",
    "random pairs",
    "stopped: right, wrong",
    "labels at the stop",
)
SHARE = 0.9
LOOKS = 5
"""Pairs between two looks at the decision of the stopping rule."""

Orders = Sequence[tuple[str, Sequence[str], Sequence[str]]]
Grades = Mapping[tuple[str, str], int]


def by_plan(orders: Orders, grades: Grades, seed: int) -> FloatArray:
    """The sum of gains after each label of the plan."""
    gains = [
        pair.weight * (grades.get((pair.query_id, pair.up), 0) - grades.get((pair.query_id, pair.down), 0))
        for pair in make_plan(orders, seed).pairs
    ]
    sums = np.concatenate([[0.0], np.cumsum(gains)])
    return np.repeat(sums, 2)[1:]  # the first label of a pair changes nothing


def at_random(orders: Orders, grades: Grades, seed: int) -> FloatArray:
    """The difference in DCG@10 after each label of a random document of either top 10, less what all grades have."""
    found = [
        (change, max(grades.get((query_id, doc_id), 0), 0))
        for query_id, first, second in orders
        for doc_id, change in changes(first, second).items()
    ]
    weights, gains = np.random.default_rng(seed).permutation(np.array(found, dtype=float)).T
    mean = np.cumsum(gains) / np.arange(1, len(gains) + 1)
    return np.asarray(np.cumsum(weights * gains) - mean * np.cumsum(weights))


def labels_needed(runs: Sequence[FloatArray], right: float) -> str:
    """Labels from which on the sign is right in :data:`SHARE` of the simulations."""
    shortest = min(map(len, runs))
    shares = np.mean([np.sign(run[:shortest]) == right for run in runs], axis=0)
    wrong = np.flatnonzero(shares < SHARE)
    first = int(wrong[-1]) + 2 if len(wrong) else 1
    return str(first) if first <= shortest else f"over {shortest}"


def stopped(orders: Orders, grades: Grades, seed: int) -> tuple[str, int]:
    """The verdict at which ``ragtune label`` says that it is decided, and the labels until then."""
    plan = make_plan(orders, seed)
    known: dict[tuple[str, str], int] = {}
    for at, pair in enumerate(plan.pairs, 1):
        known.update({(pair.query_id, d): grades.get((pair.query_id, d), 0) for d in pair.shown})
        if at % LOOKS == 0 and (verdict := decide(plan, known).verdict) != "undecided":
            return verdict, 2 * at
    return "undecided", 2 * len(plan.pairs)


def row(data: Path, name: str, simulations: int) -> str:
    """A row of the table."""
    config = compose(overrides(data, name, *COLLECTIONS[name]))
    dataset = load_dataset(config)
    orders = [one for one in both_orders(config) if one[0] in dataset.qrels]
    grades = {(q, d): grade for q, judged in dataset.qrels.items() for d, grade in judged.items()}
    measures = Measures(["nDCG@10"], dataset.qrels)
    queries = {query_id: query_id for query_id, _, _ in orders}
    first, second = (
        float(measures.of_topics({query_id: each[k] for query_id, *each in orders}, queries).mean()) for k in (0, 1)
    )
    right = float(np.sign(second - first))
    runs = ([f(orders, grades, seed) for seed in range(simulations)] for f in (by_plan, at_random))
    needed = [labels_needed(each, right) for each in runs]
    stops = [stopped(orders, grades, seed) for seed in range(simulations // 5)]
    verdicts = [verdict for verdict, _ in stops]
    told = "helps" if right > 0 else "harms"
    shares = [
        np.mean([verdict == one for verdict in verdicts]) for one in (told, {"helps": "harms"}.get(told, "helps"))
    ]
    labels = sorted(count for _, count in stops)
    cells = (
        f"{name}, `{COLLECTIONS[name][0]}`",
        len(orders),
        f"{second - first:+.3f}",
        *needed,
        f"{shares[0]:.0%}, {shares[1]:.0%}",
        f"{labels[len(labels) // 2]}",
    )
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--simulations", type=int, default=300)
    arguments = parser.parse_args()
    print(f"| {' | '.join(HEADS)} |\n|{'---|' * len(HEADS)}")
    for name in COLLECTIONS:
        print(row(arguments.data, name, arguments.simulations), flush=True)


if __name__ == "__main__":
    main()
