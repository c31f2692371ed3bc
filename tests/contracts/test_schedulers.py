"""What every estimator x scheduler promises, whatever the pool: a new conf file is covered by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import Any

import numpy as np
import pytest

from ragtune import CostBudget
from ragtune.core.interfaces import BaseEstimator, BaseScheduler
from ragtune.core.policy.batching import propose
from ragtune.core.pool.items import ItemState, PoolItem
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import BatchProposal, RemainingBudgetView, StopRecord

MakeContext = Callable[..., RAGtuneContext]
Policy = tuple[BaseEstimator, BaseScheduler]

LIMITS = CostBudget.unlimited().model_copy(update={"max_reranker_docs": 9, "max_reranker_calls": 6})


@pytest.fixture
def policy(estimator_name: str, scheduler_name: str, world: Any, policies: Any) -> Policy:
    return policies.estimator(estimator_name, world), policies.scheduler(scheduler_name)


@pytest.fixture
def request_of(make_context: MakeContext) -> Callable[..., RAGtuneContext]:
    """A request under a budget."""

    def make(budget: CostBudget = LIMITS, **fields: Any) -> RAGtuneContext:
        return make_context(tracker=budget.create_tracker(), **fields)

    return make


def play(policy: Policy, world: Any, context: RAGtuneContext) -> Iterator[tuple[str, ...]]:
    """The controller's loop, one batch a step, every promise checked on the way."""
    estimator, scheduler = policy
    pool = world.pool()
    while len(pool.eligible) and not context.tracker.is_exhausted():
        pool.apply_priorities(estimator.value(pool, context))
        before = pool.columns()
        proposal = scheduler.select_batch(pool, context.tracker.remaining_view())
        assert all(old is new for old, new in zip(before, pool.columns(), strict=True)), "it moves no item"
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


def test_only_candidates_are_proposed_within_the_budget_until_it_ends(
    policy: Policy, world: Any, request_of: Callable[..., RAGtuneContext]
) -> None:
    for budget in (LIMITS, CostBudget.unlimited()):
        batches = list(play(policy, world, request_of(budget)))
        taken = [doc_id for batch in batches for doc_id in batch]
        assert len(taken) == len(set(taken)) <= world.size


def test_the_same_request_is_answered_the_same_way(
    policy: Policy,
    estimator_name: str,
    scheduler_name: str,
    world: Any,
    policies: Any,
    request_of: Callable[..., RAGtuneContext],
) -> None:
    first = list(play(policy, world, request_of()))
    anew = policies.estimator(estimator_name, world), policies.scheduler(scheduler_name)
    assert list(play(policy, world, request_of())) == list(play(anew, world, request_of())) == first


def test_interleaved_requests_are_answered_as_if_alone(
    policy: Policy, world: Any, request_of: Callable[..., RAGtuneContext]
) -> None:
    expected = list(play(policy, world, request_of()))
    plays = [play(policy, world, request_of(query_id=query_id)) for query_id in ("q1", "q2")]
    steps = list(zip_longest(*plays))
    assert [mine for mine, _ in steps if mine is not None] == expected
    assert [others for _, others in steps if others is not None] == expected


def test_equal_values_go_by_rank(
    scheduler_name: str, policies: Any, fakes: Any, request_of: Callable[..., RAGtuneContext]
) -> None:
    world = policies.world("nothing to tell apart")
    indifferent = fakes.Estimator(lambda pool, context: dict.fromkeys(pool.doc_ids, 0.5))
    policy = indifferent, policies.scheduler(scheduler_name)
    taken = [doc_id for batch in play(policy, world, request_of(CostBudget.unlimited())) for doc_id in batch]
    assert taken == list(world.pool().doc_ids[: len(taken)])


# -- memory: what a scheduler knows of the past is ``pool.batches``, wherever the scored documents stand ---------------

_DOCS = 24
_PRIORITY = {f"d{i:02d}": (_DOCS - i) / 32 for i in range(_DOCS)}
"""Sums of 32nds are exact in any order, so that twins differ in places and in nothing else."""

RERANK_SCORES = {
    "rising": list(range(_DOCS)),
    "falling": list(range(_DOCS))[::-1],
    "best in the middle": [*range(0, _DOCS, 2), *range(_DOCS - 1, 0, -2)],
    "mixed": [i * 7 % _DOCS for i in range(_DOCS)],
}


def pool_after(history: list[BatchProposal], ranked: list[str], scores: dict[str, float]) -> CandidatePool:
    """A pool of the documents in that order, after the same batches."""
    pool = CandidatePool(
        PoolItem(doc_id=doc_id, initial_rank=rank, retrieval_score=_PRIORITY[doc_id], sources={"s": _PRIORITY[doc_id]})
        for rank, doc_id in enumerate(ranked)
    )
    pool.apply_priorities(_PRIORITY)
    for batch in history:
        pool.transition(batch.doc_ids, ItemState.IN_FLIGHT, batch.strategy)
        pool.update_scores({doc_id: scores[doc_id] for doc_id in batch.doc_ids}, batch.strategy)
    pool.apply_priorities({doc_id: _PRIORITY[doc_id] for doc_id in _PRIORITY if pool.is_candidate(doc_id)})
    return pool


def check_memory(scheduler: BaseScheduler, scores: dict[str, float]) -> None:
    """Every decision is the same where the scored documents have exchanged their places, candidates keeping theirs."""
    history: list[BatchProposal] = []
    budget = CostBudget.unlimited()
    while len(history) < _DOCS:
        taken = [doc_id for batch in history for doc_id in batch.doc_ids]
        turned = dict(zip(sorted(taken), sorted(taken, reverse=True), strict=True))
        decisions = []
        for ranked in (list(_PRIORITY), [turned.get(doc_id, doc_id) for doc_id in _PRIORITY]):
            pool = pool_after(history, ranked, scores)
            decisions.append(scheduler.select_batch(pool, budget.create_tracker().remaining_view()))
        assert decisions[0] == decisions[1], "scores are read in the order of pool.batches, not of the pool"
        if not isinstance(decisions[0], BatchProposal) or len(pool.eligible) == len(decisions[0].doc_ids):
            return
        history.append(decisions[0])


class Patient(BaseScheduler):
    """Stops after two batches that have changed nothing in the top 3: written from the interface's docstring alone."""

    def select_batch(self, pool: CandidatePool, budget: RemainingBudgetView) -> BatchProposal | StopRecord:
        tops = [self.top(pool, self.scored(pool, n)) for n in range(len(pool.batches) + 1)]
        if len(tops) > 2 and tops[-1] == tops[-2] == tops[-3]:
            return StopRecord(reason="no_change", source="scheduler")
        return propose(pool.top_candidates(2), budget)

    def scored(self, pool: CandidatePool, batches: int) -> list[int]:
        """Positions of what the first batches scored."""
        return [i for batch in pool.batches[:batches] for i in batch.positions if not np.isnan(pool.scores[i])]

    def top(self, pool: CandidatePool, positions: list[int]) -> list[str]:
        return [pool.doc_ids[i] for i in sorted(positions, key=lambda i: -pool.scores[i])[:3]]


class Forgetful(Patient):
    """The same, but takes ``pool.reranked`` for the order of scoring."""

    def scored(self, pool: CandidatePool, batches: int) -> list[int]:
        return pool.reranked.tolist()[: 2 * batches]


def _scores(name: str) -> dict[str, float]:
    return {doc_id: score / 32 for doc_id, score in zip(_PRIORITY, RERANK_SCORES[name], strict=True)}


@pytest.mark.parametrize("scores", RERANK_SCORES)
def test_the_past_is_read_in_the_order_of_scoring(scheduler_name: str, scores: str, policies: Any) -> None:
    check_memory(policies.scheduler(scheduler_name), _scores(scores))


@pytest.mark.parametrize("scores", RERANK_SCORES)
def test_a_scheduler_with_memory_passes(scores: str) -> None:
    check_memory(Patient(), _scores(scores))


@pytest.mark.parametrize("scores", RERANK_SCORES)
def test_a_scheduler_that_takes_the_pools_order_for_that_of_scoring_is_caught(scores: str) -> None:
    with pytest.raises(AssertionError, match=r"order of pool\.batches"):
        check_memory(Forgetful(), _scores(scores))
