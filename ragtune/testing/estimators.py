"""What every estimator promises (:class:`~ragtune.core.interfaces.BaseEstimator`), whatever the pool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pytest

from ragtune.core.interfaces import BaseEstimator
from ragtune.core.pool.items import ItemState
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.pool.valuation import Valuation
from ragtune.testing.budgets import require_same_under_all_budgets
from ragtune.testing.collection import make_context
from ragtune.testing.files import require_declared_files
from ragtune.testing.worlds import InWorlds, World


class EstimatorContract(InWorlds):
    """Derive from it and define :meth:`make`; every test runs in every world of :data:`~ragtune.testing.WORLDS`."""

    def make(self) -> BaseEstimator:
        """A new estimator for ``self.world``, whose ``corpus`` holds the documents."""
        raise NotImplementedError

    @pytest.fixture
    def estimator(self, world: World) -> BaseEstimator:
        return self.make()

    def test_files_that_it_is_given_are_declared(self, world: World) -> None:
        require_declared_files(self.make)

    def test_values_are_finite_and_on_the_rerankers_scale(self, estimator: BaseEstimator, world: World) -> None:
        context = make_context()
        for pool in _life(world):
            valuation = estimator.value(pool, context)
            assert all(0.0 <= value <= 1.0 for value in valuation.values())
            assert all(np.isfinite(column).all() for column in _numbers(valuation, pool).values())
            pool.apply_priorities(valuation)

    def test_every_candidate_is_valued_and_nothing_else(self, estimator: BaseEstimator, world: World) -> None:
        context = make_context()
        for pool in _life(world):
            assert list(estimator.value(pool, context)) == [pool.doc_ids[i] for i in pool.eligible]

    def test_it_asks_for_windows_if_and_only_if_it_says_so(self, estimator: BaseEstimator, world: World) -> None:
        context = make_context()
        for pool in filter(len, _life(world)):
            assert (getattr(estimator.value(pool, context), "window", None) is not None) == estimator.compares

    def test_the_pool_is_left_as_it_was(self, estimator: BaseEstimator, world: World) -> None:
        context = make_context()
        for pool in _life(world):
            before, size = pool.columns(), len(pool)
            estimator.value(pool, context)
            assert all(old is new for old, new in zip(before, pool.columns(), strict=True))
            assert len(pool) == size

    def test_asking_again_gives_the_same_answer(self, estimator: BaseEstimator, world: World) -> None:
        context = make_context()
        for pool in _life(world):
            first = _numbers(estimator.value(pool, context), pool)
            assert _numbers(estimator.value(pool, context), pool) == first

    def test_another_request_is_not_noticed(self, estimator: BaseEstimator, world: World) -> None:
        alone = self.make()
        context = make_context()
        expected = [_numbers(alone.value(pool, context), pool) for pool in _life(world)]
        mine, other = make_context(), make_context(query="another", query_id="q2")
        ahead = _life(world)
        found = []
        for pool in _life(world):
            if (next_pool := next(ahead, None)) is not None:
                estimator.value(next_pool, other)
            found.append(_numbers(estimator.value(pool, mine), pool))
        assert found == expected

    def test_one_replay_serves_smaller_budgets(self, estimator: BaseEstimator, world: World) -> None:
        require_same_under_all_budgets(world, estimator=estimator)

    def test_nothing_of_the_budget_is_spent(self, estimator: BaseEstimator, world: World) -> None:
        context = make_context()
        for pool in _life(world):
            estimator.value(pool, context)
        assert context.tracker.spent().docs == context.tracker.spent().calls == 0

    def test_documents_may_be_dropped(self, estimator: BaseEstimator, world: World) -> None:
        context, pool = make_context(), world.pool()
        while len(pool.eligible):
            pool.apply_priorities(estimator.value(pool, context))
            pool.transition([pool.doc_ids[pool.eligible[0]]], ItemState.DROPPED)
            if len(pool.eligible):
                _rerank(pool, world, count=1)
        assert dict(estimator.value(pool, context)) == {}

    def test_a_document_whose_score_was_lost_is_valued_like_a_candidate(
        self, estimator: BaseEstimator, world: World
    ) -> None:
        """It is ordered like any other document without a score (rule F1), so its estimates are the same."""
        columns = []
        for is_lost in (True, False):
            context, pool = make_context(), world.pool()
            if len(pool) < 4:
                return
            pool.apply_priorities(estimator.value(pool, context))
            if is_lost:
                pool.transition([pool.doc_ids[0]], ItemState.DROPPED)
            _rerank(pool, world)
            valuation = estimator.value(pool, context)
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
    """A pool at the moments at which its value is asked for."""
    pool = world.pool()
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
