"""Scoring of a collection's pairs by a live reranker: its plan, its limits and its outcome."""

from __future__ import annotations

import json
import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.config.progress import Progress
from experiments.replay.build import Session
from experiments.replay.journal import JournalOf
from experiments.report.prices import Work, prices_of
from ragtune.core.errors import InputError
from ragtune.core.interfaces import BaseReranker
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.budget import CostBudget
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import FREE, CostObject


@dataclass
class Scored:
    """The scores of a query so far."""

    query_id: str
    scores: dict[str, float]
    cost: dict[str, float]
    calls: int
    ms_per_call: float

    def to_line(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    def after(self, former: Scored | None) -> Scored:
        """Return these scores together with those of an earlier call."""
        if former is None:
            return self
        cost = {unit: self.cost.get(unit, 0) + former.cost.get(unit, 0) for unit in {**former.cost, **self.cost}}
        calls = self.calls + former.calls
        return Scored(self.query_id, former.scores | self.scores, cost, calls, self.ms_per_call)


class ScoreJournal(JournalOf[Scored]):
    """The journal of a table in the making."""

    ELSEWHERE = "there is scored work to go on with", "choose another --out, or delete that folder to start over"

    @staticmethod
    def _parsed(line: bytes) -> Scored:
        return Scored(**json.loads(line))


@dataclass(frozen=True)
class Order:
    """The request of the command line: the table, its pairs (``pool`` or ``all``), its order."""

    out: Path
    pairs: str = "pool"
    model: str | None = None
    max_docs: int | None = None
    max_usd: float | None = None
    dry_run: bool = False


@dataclass(frozen=True)
class ScorePlan:
    """The work of a command."""

    queries: int
    pairs: int
    done: int
    kept: int
    cost: CostObject
    unknown: frozenset[str]

    @property
    def to_score(self) -> int:
        """Pairs that have to be paid for."""
        return self.pairs - self.done - self.kept

    def usd_at(self, prices: Mapping[str, float]) -> float:
        """The dollars of one call a query, by the given prices."""
        counts = {name: np.array([getattr(self.cost, name)]) for name in ("docs", "calls", "tokens")}
        largest = np.ceil(counts["docs"] / max(self.queries, 1))
        return float(prices_of(prices).bill(Work(**counts, largest=largest))["usd"][0])


class Scoring:
    """One reranker and its pairs, what was paid for them, and why some have no score."""

    def __init__(self, session: Session, pairs: str, depth: int, journal: ScoreJournal) -> None:
        self.session = session
        self.reranker: BaseReranker = session.rerankers["default"]
        self._pairs = pairs
        self._depth = depth
        self.journal = journal
        self.paid = FREE
        self.failures: dict[str, tuple[int, str]] = {}
        self.stopped: str | None = None
        self.gave_up = False

    def plan(self, progress: Progress) -> ScorePlan:
        """Count the work; nothing is paid. Prices and times are the reranker's own expectation."""
        queries = pairs = done = kept = 0
        cost = FREE
        for context, items in self._queries():
            left = self._left(context, items)
            unpaid = self.reranker.facts.unpaid(left, context)
            queries, pairs = queries + 1, pairs + len(items)
            done, kept = done + len(items) - len(left), kept + len(left) - len(unpaid)
            if unpaid:
                cost += self.reranker.expected_cost(unpaid, context)
            progress(queries, len(self.session.dataset.queries))
        amounts = cost.by_unit()
        unknown = frozenset(unit for unit in self.reranker.facts.unpriced if not amounts.get(unit))
        return ScorePlan(queries, pairs, done, kept, cost, unknown)

    def run(self, order: Order, in_a_row: int, progress: Progress, plan: ScorePlan) -> None:
        """Score the remaining pairs; each query is kept when it is done."""
        failed, done = 0, plan.done
        progress(done, plan.pairs)
        for context, items in self._queries():
            left = self._left(context, items)
            if not left:
                continue
            chosen = self._within(left, context, order)
            failed = failed + 1 if chosen and not self._score(chosen, context) else 0
            done += len(chosen)
            progress(done, plan.pairs)
            self.gave_up = failed >= in_a_row
            if self.stopped or self.gave_up:
                break

    def found(self) -> list[Scored]:
        finished = self.journal.finished
        return [finished[query_id] for query_id in self.session.dataset.queries if query_id in finished]

    def _queries(self) -> Iterator[tuple[RAGtuneContext, list[PoolItem]]]:
        corpus = self.session.dataset.corpus
        for query_id, query in self.session.dataset.queries.items():
            context = RAGtuneContext(query=query, query_id=query_id, tracker=CostBudget.unlimited().create_tracker())
            if self._pairs == "pool":
                found = self.session.controller.rounds.retriever.retrieve(context, self._depth)
            else:
                found = [corpus.scored(doc_id, 0.0) for doc_id in corpus.doc_ids]
            if found:
                yield context, [PoolItem.from_document(doc, rank, {}) for rank, doc in enumerate(found)]

    def _left(self, context: RAGtuneContext, items: list[PoolItem]) -> list[PoolItem]:
        former = self.journal.finished.get(context.query_id)
        return items if former is None else [item for item in items if item.doc_id not in former.scores]

    def _within(self, items: list[PoolItem], context: RAGtuneContext, order: Order) -> list[PoolItem]:
        def exceeded(n: int) -> str | None:
            unpaid = self.reranker.facts.unpaid(items[:n], context)
            if order.max_docs is not None and self.paid.docs + len(unpaid) > order.max_docs:
                return f"--max-docs {order.max_docs}"
            if order.max_usd is not None and unpaid:
                usd = self.reranker.expected_cost(unpaid, context).usd
                return f"--max-usd {order.max_usd}" if self.paid.usd + usd > order.max_usd else None
            return None

        self.stopped = exceeded(len(items))
        if self.stopped is None:
            return items
        return items[: bisect_left(range(1, len(items)), True, key=lambda n: exceeded(n) is not None)]

    def _score(self, items: Sequence[PoolItem], context: RAGtuneContext) -> bool:
        unpaid = len(self.reranker.facts.unpaid(items, context))
        started = time.perf_counter()
        try:
            scores = self.reranker.rerank(items, context, "default")
        except InputError:
            raise
        except Exception as error:
            self.paid += context.meter.actual
            self.failures[context.query_id] = (len(items), " ".join(str(error).split()) or type(error).__name__)
            return False
        elapsed_ms = (time.perf_counter() - started) * 1000
        expected = self.reranker.expected_cost(items, context)
        # The cost of the scores when they were made, which may have been in an earlier run.
        cost = context.meter.charged or expected.model_copy(update={"latency_ms": elapsed_ms})
        actual = context.meter.actual if context.meter.charged or context.meter.actual != FREE else cost
        self.paid += actual.model_copy(update={"docs": unpaid})
        per_call = self.reranker.expected_cost([], context).latency_ms
        fresh = Scored(context.query_id, dict(scores), dict(cost.by_unit()), 1, per_call)
        self.journal.append(fresh.after(self.journal.finished.get(context.query_id)))
        if lost := len(items) - len(scores):
            self.failures[context.query_id] = (lost, "the reranker returned no usable score for them")
        return bool(scores)


def manifest_of(scored: Sequence[Scored], usd_is_known: bool) -> Mapping[str, Any]:
    """Return the mean costs of a pair and of a call, for a table's manifest."""
    pairs = sum(len(each.scores) for each in scored)
    calls = sum(each.calls for each in scored)
    total = {unit: sum(each.cost.get(unit, 0) for each in scored) for unit in scored[0].cost}
    ms_per_call = min(scored[-1].ms_per_call, total["latency_ms"] / calls)
    return {
        "tokens_per_doc": round(total["tokens"] / pairs, 1),
        "ms_per_doc": round((total["latency_ms"] - ms_per_call * calls) / pairs, 2),
        "ms_per_call": round(ms_per_call, 2),
        "usd_per_doc": total["usd"] / pairs if total["usd"] or usd_is_known else None,
    }
