"""What every estimator x scheduler promises, whatever the pool: a new conf file is covered by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import Any

import pytest

from ragtune import CostBudget
from ragtune.core.interfaces import BaseEstimator, BaseScheduler
from ragtune.core.pool.items import ItemState
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import BatchProposal, StopRecord

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
