"""What an estimator's own work costs a batch, on pools of 200 and 1,000 (targets: under 2 ms and under 20 ms).

    python benchmarks/bench_estimators.py [--json FILE]

Synthetic documents of 60 words over a Zipf vocabulary, 100 reranked in batches of 2; milliseconds of ``value`` and of
choosing the batch, median and 95th percentile over the batches after the first, which builds the state.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ragtune import Corpus, CostBudget, Document
from ragtune.acquisitions.upper_confidence import UpperConfidenceAcquisition
from ragtune.core.interfaces import BaseEstimator
from ragtune.core.policy.batching import choose
from ragtune.core.pool.items import ItemState, PoolItem
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.request.context import RAGtuneContext
from ragtune.embedders.tfidf import TfidfEmbedder
from ragtune.estimators.baseline import BaselineEstimator
from ragtune.estimators.gar import GAREstimator
from ragtune.estimators.ore import OREEstimator
from ragtune.estimators.quam import QuamEstimator
from ragtune.estimators.similarity import SimilarityEstimator
from ragtune.estimators.uncertainty import UncertaintyEstimator

ESTIMATORS: dict[str, Callable[[Corpus], BaseEstimator]] = {
    "baseline": lambda corpus: BaselineEstimator(),
    "similarity": lambda corpus: SimilarityEstimator(corpus, TfidfEmbedder),
    "gar": lambda corpus: GAREstimator(corpus, TfidfEmbedder),
    "quam": lambda corpus: QuamEstimator(corpus, TfidfEmbedder),
    "ore": lambda corpus: OREEstimator(corpus, TfidfEmbedder),
    "uncertainty": lambda corpus: UncertaintyEstimator(corpus, TfidfEmbedder),
}
RERANKED = 100
BATCH = 2


def make_corpus(n: int) -> Corpus:
    rng = np.random.default_rng(0)
    words = rng.zipf(1.3, size=(n, 60)) % 20_000
    return Corpus(Document(id=f"d{i:05d}", text=" ".join(f"w{w}" for w in row)) for i, row in enumerate(words))


def time_batches(estimator: BaseEstimator, corpus: Corpus) -> dict[str, float]:
    rng = np.random.default_rng(1)
    scores = rng.random(len(corpus))
    pool = CandidatePool(
        PoolItem(doc_id=doc_id, initial_rank=i, retrieval_score=-float(i), sources={"bm25": -float(i)})
        for i, doc_id in enumerate(corpus.doc_ids)
    )
    tracker = CostBudget.unlimited().create_tracker()
    context = RAGtuneContext(query="w1 w2", query_id="q", tracker=tracker)
    acquisition = UpperConfidenceAcquisition()
    times = []
    for _ in range(RERANKED // BATCH):
        started = time.perf_counter()
        pool.apply_priorities(estimator.value(pool, context))
        batch = choose(pool, BATCH, acquisition)
        times.append((time.perf_counter() - started) * 1000)
        pool.transition(batch, ItemState.IN_FLIGHT)
        pool.update_scores({doc_id: float(scores[pool.index_of(doc_id)]) for doc_id in batch}, "ce")
    later = times[1:]
    return {
        "first_ms": times[0],
        "median_ms": statistics.median(later),
        "p95_ms": float(np.percentile(later, 95)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    arguments = parser.parse_args()
    figures = []
    print("estimator      pool   first batch    median       p95   [ms a batch]")
    for n in (200, 1000):
        corpus = make_corpus(n)
        for name, make in ESTIMATORS.items():
            row = time_batches(make(corpus), corpus)
            figures.append({"estimator": name, "pool": n, **row})
            print(f"{name:13s}{n:6d}{row['first_ms']:14.2f}{row['median_ms']:10.2f}{row['p95_ms']:10.2f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
