"""What policies cost: a batch's estimate, a query's controller, and GAR beside its authors' implementation.

    python benchmarks/bench_estimators.py [--data DIR] [--json FILE]

CPU milliseconds of one core, medians of seven rounds, alternatives by turns; a ratio is the median of the rounds' own.

- A batch: synthetic documents of 60 words over a Zipf vocabulary, 100 reranked; ``value`` and the choice of the batch,
  over the batches after the first, which builds the state (targets: 2 ms on a pool of 200, 20 ms on 1,000, 5 ms on
  10,000 in batches of 10).
- A query: recorded BM25 top 100 and recorded scores of the collection in ``DIR`` (dl19 of the shared data).
- GAR (budget 100, batches of 16, 16 neighbours) against pyterrier-adaptive on the same graph, runs and scores (a rank
  by TF-IDF cosine, so that no two are equal): batches and final order must be identical, else nothing is printed.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg  # noqa: F401  the first request whose pool grows imports it
from machine import report
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from experiments.config.compose import compose
from experiments.prepare.graphs import build_graph
from experiments.replay.build import build_session, controller_of
from ragtune import Corpus, CostBudget, Document
from ragtune.acquisitions.upper_confidence import UpperConfidenceAcquisition
from ragtune.core.component import RerankerFacts
from ragtune.core.interfaces import BaseEstimator, BaseReranker
from ragtune.core.policy.batching import choose
from ragtune.core.pool.items import ItemState, PoolItem, ids_of
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.request.context import RAGtuneContext
from ragtune.data.graph import CorpusGraph
from ragtune.embedders.tfidf import TfidfEmbedder
from ragtune.estimators.baseline import BaselineEstimator
from ragtune.estimators.graph.gar import GAREstimator
from ragtune.estimators.graph.ore import OREEstimator
from ragtune.estimators.graph.quam import QuamEstimator
from ragtune.estimators.posterior.similarity import SimilarityEstimator
from ragtune.estimators.posterior.uncertainty import UncertaintyEstimator
from ragtune.expanders.corpus_graph import CorpusGraphExpander

ESTIMATORS: dict[str, Callable[[Corpus], BaseEstimator]] = {
    "baseline": lambda corpus: BaselineEstimator(),
    "similarity": lambda corpus: SimilarityEstimator(corpus, TfidfEmbedder),
    "gar": lambda corpus: GAREstimator(corpus, TfidfEmbedder),
    "quam": lambda corpus: QuamEstimator(corpus, TfidfEmbedder),
    "ore": lambda corpus: OREEstimator(corpus, TfidfEmbedder),
    "uncertainty": lambda corpus: UncertaintyEstimator(corpus, TfidfEmbedder),
}
RERANKED = 100
REPEATS = 7
_ENDS = 3
"""Batches at either end whose medians say whether batches take longer as scores come in."""

DL19 = Path(__file__).resolve().parents[2] / "shared" / "data" / "dl19"
POLICIES = {
    "greedy 10 x 10": ["estimator=baseline", "scheduler.batch_size=10", "budget.max_reranker_docs=100"],
    "uncertainty 10 x 2": ["estimator=uncertainty", "scheduler.batch_size=2", "budget.max_reranker_docs=20"],
    "uncertainty 10 x 10": ["estimator=uncertainty", "scheduler.batch_size=10", "budget.max_reranker_docs=100"],
}
GAR_BUDGET, GAR_BATCH, NEIGHBOURS = 100, 16, 16


def make_corpus(n: int) -> Corpus:
    rng = np.random.default_rng(0)
    words = rng.zipf(1.3, size=(n, 60)) % 20_000
    return Corpus(Document(id=f"d{i:05d}", text=" ".join(f"w{w}" for w in row)) for i, row in enumerate(words))


def time_batches(estimator: BaseEstimator, corpus: Corpus, size: int) -> dict[str, float]:
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
    for _ in range(RERANKED // size):
        started = time.process_time()
        pool.apply_priorities(estimator.value(pool, context))
        batch = choose(pool, size, acquisition)
        times.append((time.process_time() - started) * 1000)
        pool.transition(batch, ItemState.IN_FLIGHT)
        pool.update_scores({doc_id: float(scores[pool.roster.index[doc_id]]) for doc_id in batch}, "ce")
    later = times[1:]
    return {
        "first_ms": times[0],
        "median_ms": statistics.median(later),
        "p95_ms": float(np.percentile(later, 95)),
        "growth": statistics.median(later[-_ENDS:]) / statistics.median(later[:_ENDS]),
    }


def batches() -> list[dict[str, Any]]:
    """A row for each estimator and pool."""
    figures = []
    print("estimator      pool batch   first batch    median       p95   [ms a batch]   last over first ones")
    for n, size, names in ((200, 2, ESTIMATORS), (1000, 2, ESTIMATORS), (10_000, 10, ("uncertainty",))):
        corpus = make_corpus(n)
        for name in names:
            row = time_batches(ESTIMATORS[name](corpus), corpus, size)
            figures.append({"estimator": name, "pool": n, "batch": size, **row})
            taken = f"{row['first_ms']:14.2f}{row['median_ms']:10.2f}{row['p95_ms']:10.2f}"
            print(f"{name:13s}{n:6d}{size:6d}{taken}{row['growth']:20.2f}")
    return figures


def by_turns(work: Mapping[str, Callable[[], Any]], queries: int) -> dict[str, list[float]]:
    """Milliseconds a query of each, round by round."""
    times: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(REPEATS):
        for name, run in work.items():
            gc.collect()
            started = time.process_time()
            run()
            times[name].append((time.process_time() - started) * 1000 / queries)
    return times


def medians(times: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {name: statistics.median(taken) for name, taken in times.items()}


def recorded(data: Path, *overrides: str) -> Any:
    """The configuration of a replay of the collection."""
    return compose(
        [
            "dataset=beir",
            f"dataset.path={data}",
            "retriever=runs",
            f"retriever.paths={data}/runs/bm25.run",
            f"reranker.scores={data}/scores/monot5-base.run",
            "reranker.scale=log_prob",
            "budget=unlimited",
            *overrides,
        ]
    )


def policies(data: Path) -> dict[str, float]:
    """Milliseconds a query by policy: the controller alone, without records and measures."""
    queries = build_session(recorded(data)).dataset.queries
    work = {}
    for name, overrides in POLICIES.items():
        controller = build_session(recorded(data, *overrides)).controller
        work[name] = lambda run=controller.run: [run(text, query_id=q) for q, text in queries.items()]
        work[name]()
    figures = medians(by_turns(work, len(queries)))
    print("\npolicy                 ms a query   queries/s/core   (controller)")
    for name, ms in figures.items():
        print(f"{name:22s}{ms:11.2f}{1000 / ms:17.0f}")
    return figures


class TableReranker(BaseReranker):
    """Scores by query and document."""

    facts = RerankerFacts(is_recorded=True)

    def __init__(self, scores: Mapping[str, Mapping[str, float]]) -> None:
        self._scores = scores

    def rerank(self, items: Sequence[PoolItem], context: RAGtuneContext, strategy: str) -> dict[str, float]:
        scores = self._scores[context.query_id]
        return {doc_id: scores[doc_id] for doc_id in ids_of(items)}


def ranks(corpus: Corpus, queries: Mapping[str, str]) -> dict[str, dict[str, float]]:
    """A score in [0, 1) for every document of the collection: its rank by TF-IDF cosine, the best the highest."""
    embedder, scores = TfidfEmbedder(corpus), {}
    rows = embedder.rows(corpus.doc_ids)
    for query_id, text in queries.items():
        order = np.argsort(rows @ embedder.embed([text])[0].astype(float), kind="stable")
        scores[query_id] = {corpus.doc_ids[i]: rank / len(order) for rank, i in enumerate(order.tolist())}
    return scores


def gar(data: Path, folder: Path) -> dict[str, float]:
    """Milliseconds a query of GAR with a graph, ours and the authors', and how much faster ours is."""
    import pandas as pd
    from pyterrier_adaptive import GAR

    plain = build_session(recorded(data))
    corpus, queries = plain.dataset.corpus, plain.dataset.queries
    build_graph(corpus, folder, lambda done, total: None, k=NEIGHBOURS)
    policy = ["estimator=gar", f"estimator.graph={folder}", f"estimator.k={NEIGHBOURS}"]
    policy += [f"scheduler.batch_size={GAR_BATCH}", f"budget.max_reranker_docs={GAR_BUDGET}"]
    config = recorded(data, *policy, "assembler.ordering=reranked_first")
    scores = ranks(corpus, queries)
    reranker = TableReranker(scores)
    expander = CorpusGraphExpander(corpus, str(folder), reranker, k=NEIGHBOURS, top=None)
    parts = {**build_session(config).parts, "expander": expander}
    controller = controller_of(config, parts, {"default": reranker})
    sent: dict[str, list[list[str]]] = {query_id: [] for query_id in queries}

    def score(batch: pd.DataFrame) -> pd.DataFrame:
        query_id = batch.qid.iloc[0]
        sent[query_id].append(list(batch.docno))
        return batch.assign(score=[scores[query_id][doc_id] for doc_id in batch.docno])

    reference = GAR(score, CorpusGraph.open(folder, corpus, NEIGHBOURS), num_results=GAR_BUDGET, batch_size=GAR_BATCH)
    ours = {query_id: controller.run(text, query_id=query_id) for query_id, text in queries.items()}
    frames = {}
    for query_id, output in ours.items():
        first, found = output.history[0], output.history[0].columns.base_scores
        frames[query_id] = pd.DataFrame(
            {"qid": query_id, "query": queries[query_id], "docno": first.doc_ids, "score": found}
        ).assign(rank=range(len(found)))
        theirs = reference.transform(frames[query_id])
        if [event.details["doc_ids"] for event in output.trace.find("propose")] != sent[query_id]:
            raise SystemExit(f"query {query_id}: other batches than those of pyterrier-adaptive")
        if list(output.ranking[:GAR_BUDGET]) != theirs.docno.tolist()[:GAR_BUDGET]:
            raise SystemExit(f"query {query_id}: another order than that of pyterrier-adaptive")
    times = by_turns(
        {
            "ragtune": lambda: [controller.run(text, query_id=query_id) for query_id, text in queries.items()],
            "pyterrier-adaptive": lambda: [reference.transform(frame) for frame in frames.values()],
        },
        len(queries),
    )
    figures = medians(times)
    taken = ", ".join(f"{name} {ms:.1f}" for name, ms in figures.items())
    print(f"\nGAR with a graph, same documents in the same order, ms a query: {taken}")
    rounds = zip(times["pyterrier-adaptive"], times["ragtune"], strict=True)
    ratio = statistics.median(theirs / ours for theirs, ours in rounds)
    print(f"ratio {ratio:.2f}")
    return figures | {"ratio": ratio}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DL19, help="collection with runs/bm25.run, scores/monot5-base.run")
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    arguments = parser.parse_args()
    with threadpool_limits(1):  # threads that wait for one another count as work
        figures: dict[str, Any] = {"batches": batches()}
        if arguments.data.is_dir():
            figures["policies"] = policies(arguments.data)
            with tempfile.TemporaryDirectory() as folder:
                figures["gar"] = gar(arguments.data, Path(folder) / "graph")
        else:
            print(f"\nno collection in {arguments.data}: policies and GAR are left out")
    report(figures, arguments.json)


if __name__ == "__main__":
    main()
