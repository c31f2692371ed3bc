"""How fast the controller decides, against a literal transcription of the loop of rule S4.

    python benchmarks/bench_controller.py [--pool 1000] [--batch 10] [--repeats 7] [--json FILE]

Both run the same policy (first-stage priorities, greedy batches) over the same pool until it is drained, by a reranker
that costs nothing. Their batches and final orders must be identical, else nothing is printed but the difference.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import transcription
from machine import report

from ragtune import ControllerOutput, CostBudget, RAGtuneController, RetrievalDepths, ScoredDocument
from ragtune.core.drivers import alone
from ragtune.core.interfaces import (
    BaseAssembler,
    BaseEstimator,
    BaseReformulator,
    BaseReranker,
    BaseRetriever,
    BaseScheduler,
)
from ragtune.core.output import BudgetForks, RunState
from ragtune.core.pool.items import PoolItem
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.pool.valuation import Valuation
from ragtune.core.request.clock import VirtualClock
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.request.trace import ControllerTrace
from ragtune.core.rounds import aggregate
from ragtune.core.types import BatchProposal, CostObject, RemainingBudgetView

Decisions = tuple[list[list[str]], list[str]]


class FixedRetriever(BaseRetriever):
    def __init__(self, documents: Sequence[ScoredDocument]) -> None:
        self._documents = list(documents)

    def retrieve(self, context: RAGtuneContext, top_k: int) -> list[ScoredDocument]:
        return self._documents[:top_k]


class NoReformulator(BaseReformulator):
    def generate(self, context: RAGtuneContext, first_round: Sequence[ScoredDocument]) -> list[str]:
        return []

    @property
    def is_active(self) -> bool:
        return False


class FirstStageEstimator(BaseEstimator):
    def value(self, pool: CandidatePool, context: RAGtuneContext) -> Valuation:
        return pool.valuation(pool.base_scores)


class GreedyBatches(BaseScheduler):
    def __init__(self, batch_size: int) -> None:
        self._batch_size = batch_size

    def select_batch(self, pool: CandidatePool, budget: RemainingBudgetView) -> BatchProposal | None:
        batch = pool.top_candidates(min(self._batch_size, budget.remaining_rerank_docs))
        return BatchProposal(doc_ids=batch, expected_cost=CostObject(docs=len(batch), calls=1)) if batch else None


class TableReranker(BaseReranker):
    def __init__(self, scores: dict[str, float]) -> None:
        self._scores = scores

    def rerank(self, items: Sequence[PoolItem], context: RAGtuneContext, strategy: str) -> dict[str, float]:
        return {item.doc_id: self._scores[item.doc_id] for item in items}


class NoContext(BaseAssembler):
    """The final order is ``ControllerOutput.ranking``; the transcription assembles nothing either."""

    def assemble(self, items: Sequence[PoolItem], context: RAGtuneContext) -> list[ScoredDocument]:
        return []


def make_case(n: int, seed: int = 0) -> tuple[list[ScoredDocument], dict[str, float]]:
    """A first stage with many equal scores, so that ties are decided, and a score a document."""
    rng = np.random.default_rng(seed)
    first_stage = np.sort(rng.integers(1, n // 4 + 2, size=n) / (n // 4 + 2))[::-1]
    reranked = rng.integers(0, n // 4 + 2, size=n) / (n // 4 + 2)
    documents = [
        ScoredDocument(id=f"d{i:05d}", content=f"passage {i}", score=float(score), token_count=100)
        for i, score in enumerate(first_stage)
    ]
    return documents, {doc.id: float(score) for doc, score in zip(documents, reranked, strict=True)}


def make_controller(
    documents: Sequence[ScoredDocument], scores: dict[str, float], batch_size: int
) -> RAGtuneController:
    return RAGtuneController(
        retriever=FixedRetriever(documents),
        reformulator=NoReformulator(),
        estimator=FirstStageEstimator(),
        scheduler=GreedyBatches(batch_size),
        reranker=TableReranker(scores),
        assembler=NoContext(),
        budget=CostBudget.unlimited(),
        plan=RetrievalDepths(original_query_depth=len(documents)),
    )


def run_core(documents: Sequence[ScoredDocument], scores: dict[str, float], batch_size: int) -> ControllerOutput:
    return make_controller(documents, scores, batch_size).run("benchmark")


def core_decisions(output: ControllerOutput) -> Decisions:
    return [event.details["doc_ids"] for event in output.trace.find("propose")], list(output.ranking)


def run_transcription(documents: Sequence[ScoredDocument], scores: dict[str, float], batch_size: int) -> Decisions:
    return transcription.run(documents, table_lookup(scores), batch_size, budget=10 * len(documents))


def table_lookup(scores: dict[str, float]) -> Callable[[list[transcription.PoolItem]], dict[str, float]]:
    def rerank(items: list[transcription.PoolItem]) -> dict[str, float]:
        return {item.doc_id: scores[item.doc_id] for item in items}

    return rerank


def first_difference(ours: Decisions, literal: Decisions) -> str:
    for what, mine, theirs in zip(("batch", "final rank"), ours, literal, strict=True):
        for i, (a, b) in enumerate(itertools.zip_longest(mine, theirs)):
            if a != b:
                return f"{what} {i}: the core has {a}, the transcription {b}"
    return "none"


def core_loop(documents: Sequence[ScoredDocument], scores: dict[str, float], batch_size: int) -> float:
    """Milliseconds of the core from a ready pool to the final order."""
    controller = make_controller(documents, scores, batch_size)
    tracker = CostBudget.unlimited().create_tracker(ControllerTrace(), VirtualClock())
    context = RAGtuneContext(query="benchmark", query_id="q", tracker=tracker)
    pool = aggregate(controller.rounds.run(context))
    gc.collect()
    started = time.perf_counter()
    state = RunState(pool, context, [], controller.loop.batches.open_book(), BudgetForks())
    alone(controller.loop.run(state), controller.rerankers)
    len(state.history[-1].ranking)
    return (time.perf_counter() - started) * 1000


def transcription_loop(documents: Sequence[ScoredDocument], scores: dict[str, float], batch_size: int) -> float:
    """Milliseconds of the transcription from a ready pool to the final order."""
    pool = transcription.make_pool(documents)
    gc.collect()
    started = time.perf_counter()
    transcription.drain(pool, table_lookup(scores), batch_size, budget=10 * len(documents))
    return (time.perf_counter() - started) * 1000


def median_ms(work: Callable[[], Any], repeats: int) -> float:
    work()
    times = []
    for _ in range(repeats):
        gc.collect()
        start = time.perf_counter()
        work()
        times.append((time.perf_counter() - start) * 1000)
    return statistics.median(times)


def compare(n: int, batch_size: int, repeats: int) -> dict[str, Any]:
    """Medians of both on one pool, decisions checked first."""
    documents, scores = make_case(n)
    ours = core_decisions(run_core(documents, scores, batch_size))
    literal = run_transcription(documents, scores, batch_size)
    if ours != literal:
        raise SystemExit(f"decisions differ on a pool of {n}: {first_difference(ours, literal)}")
    core_ms = median_ms(lambda: run_core(documents, scores, batch_size).ranking, repeats)
    literal_ms = median_ms(lambda: run_transcription(documents, scores, batch_size), repeats)
    iterations = len(literal[0])
    # By turns, so that a machine that slows down for a while slows both.
    loops = [
        (core_loop(documents, scores, batch_size), transcription_loop(documents, scores, batch_size))
        for _ in range(2 * repeats + 1)
    ]
    return {
        "core_loop_ms": statistics.median(ours for ours, _ in loops),
        "transcription_loop_ms": statistics.median(theirs for _, theirs in loops),
        "loop_ratio": statistics.median(theirs / ours for ours, theirs in loops),
        "pool": n,
        "batch": batch_size,
        "iterations": iterations,
        "core_ms": core_ms,
        "transcription_ms": literal_ms,
        "ratio": literal_ms / core_ms,
    }


def iteration_costs(n: int, batch_size: int, repeats: int) -> dict[str, Any]:
    """Microseconds an iteration of the loop: what a drain in batches takes more than a drain in one batch.

    That takes off what every document costs once on either side (retrieval, pool, scores, assembly).
    """
    documents, scores = make_case(n)
    iterations = -(-n // batch_size)
    row: dict[str, Any] = {"pool": n, "iterations": iterations}
    for name, run in (("core", run_core), ("transcription", run_transcription)):
        whole = median_ms(lambda run=run: run(documents, scores, batch_size), repeats)
        one = median_ms(lambda run=run: run(documents, scores, n), repeats)
        row[f"{name}_us"] = (whole - one) * 1000 / max(1, iterations - 1)
    return row | {"ratio": row["transcription_us"] / row["core_us"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pool", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    args = parser.parse_args()

    head = compare(args.pool, args.batch, args.repeats)
    print(f"pool {head['pool']}, batch {head['batch']}, {head['iterations']} iterations, decisions identical")
    print(
        f"The loop of rule S4, from the pool to the final order: core {head['core_loop_ms']:.1f} ms, "
        f"transcription {head['transcription_loop_ms']:.1f} ms, ratio {head['loop_ratio']:.1f}"
    )
    print(
        f"whole request (pool building and context as well): core {head['core_ms']:.1f} ms, "
        f"transcription {head['transcription_ms']:.1f} ms, "
        f"ratio {head['ratio']:.1f}"
    )
    growth = [iteration_costs(n, args.batch, args.repeats) for n in (250, 500, 1000, 2000, 4000)]
    print("\none iteration of the loop, microseconds\n  pool      core  transcription   ratio")
    for row in growth:
        print(f"{row['pool']:6d}{row['core_us']:10.1f}{row['transcription_us']:15.1f}{row['ratio']:8.1f}")
    report({"comparison": head, "growth": growth}, args.json)


if __name__ == "__main__":
    main()
