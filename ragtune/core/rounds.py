"""Retrieval rounds: the original query, its rewrites, and their union into one pool (rules R1 to R5)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ragtune.core.errors import InputError, RetrievalError
from ragtune.core.hits import Hits, checked_documents
from ragtune.core.interfaces import BaseReformulator, BaseReranker, BaseRetriever
from ragtune.core.plain import describe
from ragtune.core.policy.scaling import on_original_scale
from ragtune.core.pool.items import PoolItem
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.pool.roster import Roster
from ragtune.core.request.accounts import REFORMULATION
from ragtune.core.request.context import ORIGINAL, CostMeter, RAGtuneContext, first_stage_of
from ragtune.core.types import FREE, CostObject, ReformulationResult, ScoredDocument

REWRITE_WEIGHT = 0.05
"""Voice of all rewrites together; the original query's is 1 (rule R2). Larger ones lose more by bad rewrites."""


class RetrievalDepths(BaseModel):
    """Depths of the rounds (rule R1).

    Attributes:
        original_query_depth: documents for the user's query, D_orig.
        depth_per_reformulation: documents for each rewrite, D_ref; at most D_orig (rule R2).
        num_reformulations: rewrites used, m.

    Examples:
        >>> from ragtune import RetrievalDepths
        >>> RetrievalDepths(original_query_depth=100, num_reformulations=0).original_query_depth
        100
    """

    original_query_depth: int = Field(default=10, ge=1)
    depth_per_reformulation: int = Field(default=5, ge=1)
    num_reformulations: int = Field(default=2, ge=0)

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="after")
    def _originality_bias(self) -> RetrievalDepths:
        if self.depth_per_reformulation > self.original_query_depth:
            raise ValueError(
                f"depth_per_reformulation={self.depth_per_reformulation} exceeds "
                f"original_query_depth={self.original_query_depth}: the original query stays the primary source"
            )
        return self


class RetrievalRounds:
    """Runs the rounds of one request; what only a rewrite found and a reranker cannot score is no candidate."""

    def __init__(
        self,
        retriever: BaseRetriever,
        reformulator: BaseReformulator,
        plan: RetrievalDepths,
        rerankers: Collection[BaseReranker] = (),
    ) -> None:
        self.retriever = retriever
        self._reformulator = reformulator
        self.plan = plan
        self._rerankers = rerankers

    def run(self, context: RAGtuneContext) -> list[ReformulationResult]:
        """The original round, then one a rewrite, as far as the budget goes; only the original one must not fail."""
        try:
            with context.tracker.gate:
                found = checked_documents(self.retriever.retrieve(context, self.plan.original_query_depth))
        except InputError:
            raise
        except Exception as error:
            raise RetrievalError(f"retrieval failed for query {context.query_id!r}: {describe(error)}") from error
        rounds = [self._round(context, context.query, ORIGINAL, found)]
        known: set[str] = set()
        for i, rewrite in enumerate(self._rewrites(context, rounds[0].candidates)):
            known |= {doc.id for doc in rounds[-1].candidates}
            if not context.tracker.try_consume_retrieval_round():
                break
            rounds.extend(self._supplement(context, rewrite, f"rewrite_{i}", known))
        return rounds

    def _supplement(
        self, context: RAGtuneContext, rewrite: str, name: str, known: Collection[str]
    ) -> list[ReformulationResult]:
        round_context = context.model_copy(update={"query": rewrite, "round": name})
        try:
            with context.tracker.gate:
                found = checked_documents(self.retriever.retrieve(round_context, self.plan.depth_per_reformulation))
                eligible = [
                    doc
                    for doc in found
                    if doc.id in known or all(reranker.facts.can_score(doc.id, context) for reranker in self._rerankers)
                ]
        except InputError:
            raise
        except Exception as error:
            context.trace.add("controller", "retrieval_failed", round=name, query=rewrite, error=describe(error))
            return []
        if len(eligible) < len(found):
            context.trace.add("controller", "ineligible", round=name, count=len(found) - len(eligible))
        new = len({doc.id for doc in eligible}.difference(known))
        return [self._round(context, rewrite, name, eligible, new=new)]

    def _round(
        self, context: RAGtuneContext, rewrite: str, name: str, found: Sequence[ScoredDocument], **facts: int
    ) -> ReformulationResult:
        """A round's outcome, each document once, and its event: ``new`` of a rewrite, what no round before it found."""
        candidates = found if isinstance(found, Hits) else _once(found)
        if len(candidates) < len(found):
            facts["repeated"] = len(found) - len(candidates)
        context.trace.add("controller", "retrieve", round=name, query=rewrite, found=len(found), **facts)
        return ReformulationResult.model_construct(
            original_query=context.query,
            reformulated_query=rewrite,
            strategy=name,
            candidates=candidates,
            signals=frozenset(self.retriever.signals),
        )

    def _rewrites(self, context: RAGtuneContext, found: Sequence[ScoredDocument]) -> list[str]:
        """Distinct rewrites, the original excluded (rule R3); none if the call is denied or fails."""
        try:
            if not self._reformulator.is_active or self.plan.num_reformulations == 0:
                return []
            left = context.tracker.remaining_retrieval_rounds()
            context.num_reformulations = min(self.plan.num_reformulations, left)
            # What no round could use is not bought; the denial is in the trace.
            if not left and not context.tracker.try_consume_retrieval_round():
                return []
            return self._paid_rewrites(context, found)
        except InputError:
            raise
        except Exception as error:
            context.trace.add("controller", "reformulation_failed", error=describe(error))
            return []

    def _paid_rewrites(self, context: RAGtuneContext, found: Sequence[ScoredDocument]) -> list[str]:
        wanted = context.num_reformulations
        with context.tracker.gate:
            cost = self._reformulator.expected_cost(context, found)
        if not context.tracker.try_consume_reformulation(cost=cost):
            return []
        context.meter = CostMeter()
        started_ms = context.tracker.elapsed_ms
        try:
            with context.tracker.gate:
                proposed = self._reformulator.generate(context, found)
            if isinstance(proposed, str):  # which is a list of letters
                raise TypeError("rewrites of type str: allowed is a list of texts")
            rewrites = distinct_rewrites(proposed, context.query)
        except Exception:
            # A failed call costs what the service reported, not what was expected of it.
            wasted = _settle(context, cost, CostObject(latency_ms=cost.latency_ms), started_ms)
            if wasted != FREE:
                context.tracker.refund(wasted, REFORMULATION)
            raise
        _settle(context, cost, cost, started_ms)
        used = rewrites[:wanted]
        context.trace.add("controller", "reformulate", proposed=proposed, used=used)
        return used


def aggregate(rounds: Sequence[ReformulationResult]) -> CandidatePool:
    """Union of the rounds by document id (rule R3) on the original query's scale; ``sources`` gains a key per round."""
    if len(rounds) == 1 and isinstance(rounds[0].candidates, Hits):
        return CandidatePool(roster=Roster.of(rounds[0].candidates, rounds[0].strategy))
    merged: dict[str, dict[str, float]] = {}
    first: dict[str, ScoredDocument] = {}
    for result in rounds:
        for doc in result.candidates:
            sources = _named_sources(doc, result)
            if doc.id not in first:
                first[doc.id], merged[doc.id] = doc, sources
                continue
            known = merged[doc.id]
            for source, score in sources.items():
                known[source] = max(score, known.get(source, score))
    rewrites = [result for result in rounds[1:] if result.candidates]
    if rewrites:
        weight = REWRITE_WEIGHT / len(rewrites)
        _rescale_sources(merged, weight)
        _rescale_documents(first, rounds[0], rewrites, weight)
    return CandidatePool(
        PoolItem.from_document(doc, rank, merged[doc_id]) for rank, (doc_id, doc) in enumerate(first.items())
    )


def _rescale_sources(merged: Mapping[str, dict[str, float]], weight: float) -> None:
    """Put every rewrite's source on the scale of the original's source of the same first stage."""
    by_source: dict[str, dict[str, float]] = {}
    for doc_id, sources in merged.items():
        for source, score in sources.items():
            by_source.setdefault(source, {})[doc_id] = score
    for source, found in by_source.items():
        if (stage := first_stage_of(source)) != source:
            for doc_id, score in on_original_scale(by_source.get(stage, {}), found, weight).items():
                merged[doc_id][source] = score


def _rescale_documents(
    first: dict[str, ScoredDocument],
    original: ReformulationResult,
    rewrites: Sequence[ReformulationResult],
    weight: float,
) -> None:
    """Put the scores that the rewrites' rounds gave on the scale of the original round's; the best counts."""
    own = {doc.id: first[doc.id].score for doc in original.candidates}
    best = dict(own)
    for result in rewrites:
        found = {doc.id: doc.score for doc in reversed(result.candidates)}
        for doc_id, score in on_original_scale(own, found, weight).items():
            best[doc_id] = max(score, best.get(doc_id, score))
    for doc_id, score in best.items():
        if score != first[doc_id].score:
            first[doc_id] = first[doc_id].model_copy(update={"score": score})


def _named_sources(doc: ScoredDocument, found: ReformulationResult) -> dict[str, float]:
    if not doc.sources:
        return {found.strategy: float(doc.score)}
    if found.strategy == ORIGINAL:
        return dict(doc.sources)
    return {
        source if source in found.signals else f"{found.strategy}/{source}": score
        for source, score in doc.sources.items()
    }


def _once(found: Sequence[ScoredDocument]) -> list[ScoredDocument]:
    first: dict[str, ScoredDocument] = {}
    for doc in found:
        first.setdefault(doc.id, doc)
    return list(first.values())


def _settle(context: RAGtuneContext, expected: CostObject, unreported: CostObject, started_ms: float) -> CostObject:
    """Book the real cost of the rewriting, ``unreported`` where none was reported, and let its time pass."""
    charged = unreported if context.meter.charged is None else context.meter.charged
    is_reported = context.meter.charged is not None or not context.tracker.clock.is_real
    context.tracker.let_pass(charged.latency_ms if is_reported else 0.0, started_ms)
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
