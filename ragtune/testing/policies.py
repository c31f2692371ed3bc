"""What every estimator and every scheduler promises, whatever the pool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest

from ragtune.core.interfaces import BaseEstimator, BaseScheduler
from ragtune.core.policy.batching import objection
from ragtune.core.pool.items import ItemState
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.pool.valuation import Valuation
from ragtune.core.request.budget import CostBudget
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import POLICY_FAILED
from ragtune.embedders.tfidf import TfidfEmbedder
from ragtune.estimators.posterior.uncertainty import UncertaintyEstimator
from ragtune.testing.component import ComponentContract, make_context
from ragtune.testing.worlds import WORLDS, World, controller_of, request_in, require_same_under_all_budgets

_LIMITS = CostBudget.only(max_reranker_docs=9, max_reranker_calls=6)


@cache
def _world(name: str) -> World:
    return WORLDS[name]()


class _InWorlds(ComponentContract):
    """Base of the suites that run in every world; ``world`` is that of the running test, for ``make``."""

    world: World = _world("plain")

    @pytest.fixture(params=WORLDS, name="world")
    def _in_world(self, request: pytest.FixtureRequest) -> World:
        self.world = _world(request.param)
        return self.world

    @pytest.fixture
    def made(self, world: World) -> Any:
        return self.make()


class EstimatorContract(_InWorlds):
    """Derive from it and define :meth:`make`; its tests run in every world of :data:`~ragtune.testing.WORLDS`."""

    def make(self) -> BaseEstimator:
        """A new estimator for ``self.world``, whose ``corpus`` holds the documents."""
        raise NotImplementedError

    def test_every_candidate_has_a_finite_value_on_the_rerankers_scale_and_nothing_else_has_one(
        self, made: BaseEstimator, world: World
    ) -> None:
        context = make_context()
        for pool in _life(world):
            valuation = made.value(pool, context)
            assert list(valuation) == [pool.doc_ids[i] for i in pool.eligible]
            assert all(0.0 <= value <= 1.0 for value in valuation.values())
            assert all(np.isfinite(column).all() for column in _numbers(valuation, pool).values())
            assert (getattr(valuation, "window", None) is not None) == made.compares, "only who compares asks"
            pool.apply_priorities(valuation)

    def test_asking_again_gives_the_same_answer_and_changes_nothing(self, made: BaseEstimator, world: World) -> None:
        context = make_context()
        for pool in _life(world):
            before, size = pool.columns(), len(pool)
            first = _numbers(made.value(pool, context), pool)
            assert _numbers(made.value(pool, context), pool) == first
            assert all(old is new for old, new in zip(before, pool.columns(), strict=True))
            assert len(pool) == size
        assert context.tracker.spent().docs == context.tracker.spent().calls == 0

    def test_another_request_is_not_noticed(self, made: BaseEstimator, world: World) -> None:
        alone, context = self.make(), make_context()
        expected = [_numbers(alone.value(pool, context), pool) for pool in _life(world)]
        mine, other = make_context(), make_context(query="another", query_id="q2")
        ahead = _life(world)
        found = []
        for pool in _life(world):
            if (next_pool := next(ahead, None)) is not None:
                made.value(next_pool, other)
            found.append(_numbers(made.value(pool, mine), pool))
        assert found == expected

    def test_one_replay_serves_smaller_budgets(self, made: BaseEstimator, world: World) -> None:
        require_same_under_all_budgets(world, estimator=made)

    def test_documents_may_be_dropped(self, made: BaseEstimator, world: World) -> None:
        context, pool = make_context(), world.pool()
        while len(pool.eligible):
            pool.apply_priorities(made.value(pool, context))
            pool.transition([pool.doc_ids[pool.eligible[0]]], ItemState.DROPPED)
            if len(pool.eligible):
                _rerank(pool, world, count=1)
        assert not len(pool) or dict(made.value(pool, context)) == {}

    def test_a_document_whose_score_was_lost_is_valued_like_a_candidate(
        self, made: BaseEstimator, world: World
    ) -> None:
        """It is ordered like any other document without a score (rule F1), so its estimates are the same."""
        columns = []
        for is_lost in (True, False):
            context, pool = make_context(), world.pool()
            if len(pool) < 4:
                return
            pool.apply_priorities(made.value(pool, context))
            if is_lost:
                pool.transition([pool.doc_ids[0]], ItemState.DROPPED)
            _rerank(pool, world)
            valuation = made.value(pool, context)
            if not isinstance(valuation, Valuation):
                return  # a dict names candidates only, and the pool keeps the last value of the others
            numbers = _numbers(valuation, pool)
            columns.append([numbers["mean"], numbers.get("posterior")])
        assert columns[0] == columns[1]


def _rerank(pool: CandidatePool, world: World, count: int = 2) -> None:
    """Score some of the candidates, from the end, so that a policy gets what it would not have asked for."""
    chosen = [pool.doc_ids[i] for i in pool.eligible[-count:]]
    pool.transition(chosen, ItemState.IN_FLIGHT)
    pool.update_scores({doc_id: world.score(doc_id) for doc_id in chosen}, "default")


def _life(world: World) -> Iterator[CandidatePool]:
    pool = world.pool()
    if len(pool):  # the loop asks nobody about no documents
        yield pool
    while len(pool.eligible):
        _rerank(pool, world)
        yield pool
        if world.grow(pool):
            yield pool


def _numbers(valuation: Mapping[str, float], pool: CandidatePool) -> dict[str, list[float]]:
    if not isinstance(valuation, Valuation):
        return {"mean": [valuation[doc_id] for doc_id in valuation]}
    columns = {"mean": valuation.mean, "acquisition": valuation.acquisition, "posterior": valuation.posterior}
    if valuation.belief is not None:
        columns |= {"belief": valuation.belief.mean, "spread": valuation.belief.variance, "key": valuation.belief.key}
    assert all(len(column) == len(pool) for column in columns.values() if column is not None)
    return {name: column.tolist() for name, column in columns.items() if column is not None}


class SchedulerContract(_InWorlds):
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

    def test_something_is_proposed_where_nothing_is_limited(self) -> None:
        world = _world("plain")
        posterior = UncertaintyEstimator(world.corpus, TfidfEmbedder)
        assert _batches(world, posterior, self.make(), CostBudget.unlimited())[0]

    def test_only_candidates_are_proposed_within_the_budget_and_the_same_ones_beside_other_requests(
        self, made: BaseScheduler, estimator: BaseEstimator, world: World
    ) -> None:
        if objection(estimator, made) is not None:
            return  # the controller refuses both together
        for budget in (_LIMITS, CostBudget.unlimited()):
            [expected] = _batches(world, self.make_estimator(), self.make(), budget)
            taken = [doc_id for batch in expected for doc_id in batch]
            assert len(taken) == len(set(taken)) <= len(world.texts)
            assert _batches(world, estimator, made, budget, "q1", "q2") == [expected, expected]

    def test_one_replay_serves_smaller_budgets(self, world: World) -> None:
        posterior = UncertaintyEstimator(world.corpus, TfidfEmbedder)
        require_same_under_all_budgets(world, estimator=posterior, scheduler=self.make())

    def test_equal_values_go_by_rank(self) -> None:
        world = World(["salt and bread"] * 30, {"bm25": [1.0] * 30}, lambda i: 0.5)
        [batches] = _batches(world, _Indifferent(), self.make(), CostBudget.unlimited())
        taken = [doc_id for batch in batches for doc_id in batch]
        assert taken == list(world.pool().doc_ids[: len(taken)])


class _Indifferent(BaseEstimator):
    def value(self, pool: CandidatePool, context: RAGtuneContext) -> Mapping[str, float]:
        return {pool.doc_ids[i]: 0.5 for i in pool.eligible}


def _batches(
    world: World, estimator: BaseEstimator, scheduler: BaseScheduler, budget: CostBudget, *query_ids: str
) -> list[list[list[str]]]:
    """The batches of requests under way at the same time; the controller checks what is proposed."""
    controller = controller_of(world, estimator=estimator, scheduler=scheduler)
    outputs = controller.run_many([request_in(world, query_id, budget) for query_id in query_ids or ("q1",)])
    for output in outputs:
        assert output.stop.reason not in {*POLICY_FAILED, "budget_denied"}, output.stop
    return [[event.details["doc_ids"] for event in output.trace.find("propose")] for output in outputs]
