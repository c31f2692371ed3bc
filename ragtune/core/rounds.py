"""Retrieval rounds: the original query, its rewrites, and their union into one pool (0.55 sections 2, 5 and 6)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ragtune.core.batches import checked, reported
from ragtune.core.budget import REFORMULATION
from ragtune.core.context import ORIGINAL, CostMeter, RAGtuneContext, rewrite_round
from ragtune.core.errors import InputError, InvalidScoreError, RetrievalError
from ragtune.core.interfaces import BaseReformulator, BaseRetriever
from ragtune.core.items import PoolItem
from ragtune.core.pool import CandidatePool
from ragtune.core.types import FREE, CostObject, ReformulationResult, ScoredDocument


class RetrievalPlan(BaseModel):
    """Depths of the rounds (0.55 section 3).

    Attributes:
        original_query_depth: documents for the user's query, D_orig.
        depth_per_reformulation: documents for each rewrite, D_ref; at most D_orig (0.55 rule 1).
        num_reformulations: rewrites used, m.
    """

    original_query_depth: int = Field(default=10, ge=1)
    depth_per_reformulation: int = Field(default=5, ge=1)
    num_reformulations: int = Field(default=2, ge=0)

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="after")
    def _originality_bias(self) -> RetrievalPlan:
        if self.depth_per_reformulation > self.original_query_depth:
            raise ValueError(
                f"depth_per_reformulation={self.depth_per_reformulation} exceeds "
                f"original_query_depth={self.original_query_depth}: the original query stays the primary source"
            )
        return self


class RetrievalRounds:
    """Runs the rounds of one request under its budget."""

    def __init__(self, retriever: BaseRetriever, reformulator: BaseReformulator, plan: RetrievalPlan) -> None:
        self.retriever = retriever
        self._reformulator = reformulator
        self._plan = plan

    def run(self, context: RAGtuneContext) -> list[ReformulationResult]:
        """The original round, then one round a rewrite, as far as the budget goes.

        Raises:
            RetrievalError: if the original round fails; supplemental failures are traced and skipped.
        """
        try:
            with context.tracker.read_only():
                found = require_finite(self.retriever.retrieve(context, self._plan.original_query_depth))
        except InputError:
            raise
        except Exception as error:
            raise RetrievalError(f"retrieval failed for query {context.query_id!r}: {error}") from error
        context.trace.add("controller", "retrieve", round=ORIGINAL, query=context.query, found=len(found))
        rounds = [_round(context, context.query, ORIGINAL, found)]
        for i, rewrite in enumerate(self._rewrites(context, found)):
            if not context.tracker.try_consume_retrieval_round():
                break
            rounds.extend(self._supplement(context, rewrite, rewrite_round(i)))
        return rounds

    def _supplement(self, context: RAGtuneContext, rewrite: str, name: str) -> list[ReformulationResult]:
        round_context = context.model_copy(update={"query": rewrite, "round": name})
        try:
            with context.tracker.read_only():
                found = require_finite(self.retriever.retrieve(round_context, self._plan.depth_per_reformulation))
        except InputError:
            raise
        except Exception as error:
            context.trace.add("controller", "retrieval_failed", round=name, query=rewrite, error=str(error))
            return []
        context.trace.add("controller", "retrieve", round=name, query=rewrite, found=len(found))
        return [_round(context, rewrite, name, found)]

    def _rewrites(self, context: RAGtuneContext, found: Sequence[ScoredDocument]) -> list[str]:
        """Distinct rewrites, the original excluded (design section 3); none if the call is denied or fails."""
        context.num_reformulations = self._plan.num_reformulations
        if not self._reformulator.is_active or self._plan.num_reformulations == 0:
            return []
        try:
            return self._paid_rewrites(context, found)
        except InputError:
            raise
        except Exception as error:
            context.trace.add("controller", "reformulation_failed", error=f"{type(error).__name__}: {error}")
            return []

    def _paid_rewrites(self, context: RAGtuneContext, found: Sequence[ScoredDocument]) -> list[str]:
        cost = checked(self._reformulator.expected_cost(context, found))
        if not context.tracker.try_consume_reformulation(cost=cost):
            return []
        context.meter = CostMeter()
        try:
            with context.tracker.read_only():
                proposed = list(self._reformulator.generate(context, found))
            rewrites = distinct_rewrites(proposed, context.query)
        except Exception:
            wasted = _settle(context, cost)
            if wasted != FREE:
                context.tracker.refund(wasted, REFORMULATION)
            raise
        _settle(context, cost)
        used = rewrites[: self._plan.num_reformulations]
        context.trace.add("controller", "reformulate", proposed=proposed, used=used)
        return used


def aggregate(rounds: Sequence[ReformulationResult]) -> CandidatePool:
    """Union of the rounds by document id (0.55 rule 2).

    ``initial_rank`` follows the rounds in order, so the original query's documents come first; ``sources`` gains a
    key per round, or per named source within a round.
    """
    merged: dict[str, dict[str, float]] = {}
    first: dict[str, ScoredDocument] = {}
    for result in rounds:
        for doc in result.candidates:
            sources = _named_sources(doc, result.strategy)
            if doc.id not in first:
                first[doc.id], merged[doc.id] = doc, sources
                continue
            known = merged[doc.id]
            for source, score in sources.items():
                known[source] = max(score, known.get(source, score))
    return CandidatePool(
        PoolItem.from_document(doc, rank, merged[doc_id]) for rank, (doc_id, doc) in enumerate(first.items())
    )


def require_finite(found: Sequence[ScoredDocument]) -> list[ScoredDocument]:
    """What a component found, with every score checked where it enters.

    Raises:
        InvalidScoreError: on a score that is not a finite number.
    """
    for doc in found:
        if not all(map(math.isfinite, (doc.score, *doc.sources.values()))):
            raise InvalidScoreError(f"score {doc.score!r} of document {doc.id!r}: allowed is a finite number")
    return list(found)


def _named_sources(doc: ScoredDocument, round_name: str) -> dict[str, float]:
    if not doc.sources:
        return {round_name: float(doc.score)}
    if round_name == ORIGINAL:
        return dict(doc.sources)
    return {f"{round_name}/{source}": score for source, score in doc.sources.items()}


def _round(context: RAGtuneContext, rewrite: str, name: str, found: Sequence[ScoredDocument]) -> ReformulationResult:
    return ReformulationResult.model_construct(
        original_query=context.query, reformulated_query=rewrite, strategy=name, candidates=list(found)
    )


def _settle(context: RAGtuneContext, expected: CostObject) -> CostObject:
    """Book what the rewriting really cost, as far as it is known, and let its time pass."""
    charged = reported(context, context.meter.charged, expected)
    context.tracker.clock.advance(charged.latency_ms)
    context.tracker.settle(expected, charged, REFORMULATION)
    return charged


def distinct_rewrites(proposed: Sequence[str], query: str) -> list[str]:
    """The proposals without blank ones, the query and repetitions, however written (case, white space)."""
    seen = {_canonical(query), ""}
    rewrites = []
    for rewrite in proposed:
        if (key := _canonical(rewrite)) not in seen:
            seen.add(key)
            rewrites.append(rewrite)
    return rewrites


def _canonical(query: str) -> str:
    return " ".join(query.casefold().split())
