"""What every scheduler promises (:class:`~ragtune.core.interfaces.BaseScheduler`), whatever the pool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

import pytest

from ragtune.core.interfaces import BaseEstimator, BaseScheduler
from ragtune.core.output import HistoryStep
from ragtune.core.pool.items import ItemState, PoolItem
from ragtune.core.pool.ordering import Ordering
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.request.budget import CostBudget
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import FREE, BatchProposal, StopRecord
from ragtune.embedders.tfidf import TfidfEmbedder
from ragtune.estimators.posterior.uncertainty import UncertaintyEstimator
from ragtune.testing.budgets import require_same_under_all_budgets
from ragtune.testing.collection import make_context
from ragtune.testing.files import require_declared_files
from ragtune.testing.worlds import WORLDS, InWorlds, World, undecided

LIMITS = CostBudget.only(max_reranker_docs=9, max_reranker_calls=6)

_DOCS = 24
_PRIORITY = {f"d{i:02d}": (_DOCS - i) / 32 for i in range(_DOCS)}
"""Sums of 32nds and 64ths are exact in any order, so that twins differ in places and in nothing else."""

RERANK_SCORES = {
    "rising": list(range(_DOCS)),
    "falling": list(range(_DOCS))[::-1],
    "best in the middle": [*range(0, _DOCS, 2), *range(_DOCS - 1, 0, -2)],
    "mixed": [i * 7 % _DOCS for i in range(_DOCS)],
}
"""Scores in 32nds of 24 documents, in the order of their priorities; half a 32nd is added to avoid ties with these."""


class SchedulerContract(InWorlds):
    """Derive from it and define :meth:`make`; the tests play the controller's loop in every world."""

    def make(self) -> BaseScheduler:
        """A new scheduler."""
        raise NotImplementedError

    def make_estimator(self) -> BaseEstimator:
        """A new estimator for ``self.world``, whose values the scheduler is given; the posterior unless overridden."""
        return UncertaintyEstimator(self.world.corpus, TfidfEmbedder)

    @pytest.fixture
    def estimator(self, world: World) -> BaseEstimator:
        return self.make_estimator()

    def test_files_that_it_is_given_are_declared(self, world: World) -> None:
        require_declared_files(self.make)

    def test_only_candidates_are_proposed_within_the_budget_until_it_ends(
        self, estimator: BaseEstimator, world: World
    ) -> None:
        scheduler = self.make()
        for budget in (LIMITS, CostBudget.unlimited()):
            batches = list(_play(estimator, scheduler, world, _request(budget)))
            taken = [doc_id for batch in batches for doc_id in batch]
            assert len(taken) == len(set(taken)) <= world.size

    def test_something_is_proposed_where_nothing_is_limited(self) -> None:
        world = WORLDS["plain"]()
        estimator = UncertaintyEstimator(world.corpus, TfidfEmbedder)
        assert next(_play(estimator, self.make(), world, _request(CostBudget.unlimited())), None)

    def test_the_same_request_is_answered_the_same_way(self, estimator: BaseEstimator, world: World) -> None:
        scheduler = self.make()
        first = list(_play(estimator, scheduler, world, _request()))
        assert list(_play(estimator, scheduler, world, _request())) == first
        assert list(_play(self.make_estimator(), self.make(), world, _request())) == first

    def test_interleaved_requests_are_answered_as_if_alone(self, estimator: BaseEstimator, world: World) -> None:
        scheduler = self.make()
        expected = list(_play(estimator, scheduler, world, _request()))
        plays = [_play(estimator, scheduler, world, _request(query_id=query_id)) for query_id in ("q1", "q2")]
        steps = list(zip_longest(*plays))
        assert [mine for mine, _ in steps if mine is not None] == expected
        assert [others for _, others in steps if others is not None] == expected

    def test_one_replay_serves_smaller_budgets(self, world: World) -> None:
        posterior = UncertaintyEstimator(world.corpus, TfidfEmbedder)
        require_same_under_all_budgets(world, estimator=posterior, scheduler=self.make())

    def test_equal_values_go_by_rank(self) -> None:
        world, context = undecided(), _request(CostBudget.unlimited())
        batches = _play(_Indifferent(), self.make(), world, context)
        taken = [doc_id for batch in batches for doc_id in batch]
        assert taken == list(world.pool().doc_ids[: len(taken)])

    @pytest.mark.parametrize("scores", RERANK_SCORES)
    def test_the_past_is_read_in_the_order_of_scoring(self, scores: str) -> None:
        """Every decision is the same where the scored documents have exchanged places, candidates keeping theirs."""
        scheduler = self.make()
        values = {doc_id: (2 * score + 1) / 64 for doc_id, score in zip(_PRIORITY, RERANK_SCORES[scores], strict=True)}
        history: list[BatchProposal] = []
        while len(history) < _DOCS:
            taken = [doc_id for batch in history for doc_id in batch.doc_ids]
            turned = dict(zip(sorted(taken), sorted(taken, reverse=True), strict=True))
            decisions = []
            for ranked in (list(_PRIORITY), [turned.get(doc_id, doc_id) for doc_id in _PRIORITY]):
                pool = _pool_after(history, ranked, values)
                decisions.append(
                    scheduler.select_batch(pool, _request(CostBudget.unlimited()).tracker.remaining_view())
                )
            assert decisions[0] == decisions[1], "scores are read in the order of pool.batches, not of the pool"
            if not isinstance(decisions[0], BatchProposal) or len(pool.eligible) == len(decisions[0].doc_ids):
                return
            history.append(decisions[0])


def _pool_after(history: list[BatchProposal], ranked: list[str], scores: Mapping[str, float]) -> CandidatePool:
    """A pool of the documents in that order, after the same batches."""
    pool = CandidatePool(
        PoolItem(doc_id=doc_id, initial_rank=rank, retrieval_score=_PRIORITY[doc_id], sources={"s": _PRIORITY[doc_id]})
        for rank, doc_id in enumerate(ranked)
    )
    pool.apply_priorities(_PRIORITY)
    _note(pool)
    for batch in history:
        pool.transition(batch.doc_ids, ItemState.IN_FLIGHT, batch.strategy)
        pool.update_scores({doc_id: scores[doc_id] for doc_id in batch.doc_ids}, batch.strategy)
        _note(pool)
    pool.apply_priorities({doc_id: _PRIORITY[doc_id] for doc_id in _PRIORITY if pool.is_candidate(doc_id)})
    return pool


def _note(pool: CandidatePool) -> None:
    """Add the present order to the pool's rankings, as the controller does before it asks for a batch."""
    step = HistoryStep(FREE, pool.doc_ids, Ordering.FINAL_SCORE, pool.columns())
    pool.note(lambda: step.ranking)


class _Indifferent(BaseEstimator):
    """Values all candidates alike."""

    def value(self, pool: CandidatePool, context: RAGtuneContext) -> Mapping[str, float]:
        return {pool.doc_ids[i]: 0.5 for i in pool.eligible}


def _request(budget: CostBudget = LIMITS, **fields: Any) -> RAGtuneContext:
    """A request under a budget."""
    return make_context(tracker=budget.create_tracker(), **fields)


def _play(
    estimator: BaseEstimator, scheduler: BaseScheduler, world: World, context: RAGtuneContext
) -> Iterator[tuple[str, ...]]:
    """The controller's loop, one batch a step, every promise checked on the way."""
    pool = world.pool()
    while len(pool.eligible) and not context.tracker.is_exhausted():
        pool.apply_priorities(estimator.value(pool, context))
        _note(pool)
        before = pool.columns()
        proposal = scheduler.select_batch(pool, context.tracker.remaining_view())
        assert all(old is new for old, new in zip(before, pool.columns(), strict=True)), "it moves no item"
        if proposal is None:
            return
        if isinstance(proposal, StopRecord):
            assert proposal.reason
            assert proposal.source
            return
        assert isinstance(proposal, BatchProposal)
        yield tuple(_checked(proposal, pool))
        assert context.tracker.consume(proposal.expected_cost), "what is proposed can be paid"
        pool.transition(proposal.doc_ids, ItemState.IN_FLIGHT)
        pool.update_scores({doc_id: world.score(doc_id) for doc_id in proposal.doc_ids}, proposal.strategy)
        world.grow(pool)


def _checked(proposal: BatchProposal, pool: CandidatePool) -> list[str]:
    assert proposal.doc_ids
    assert len(set(proposal.doc_ids)) == len(proposal.doc_ids)
    assert all(pool.is_candidate(doc_id) for doc_id in proposal.doc_ids)
    assert proposal.expected_cost.docs == len(proposal.doc_ids)
    return proposal.doc_ids
