"""Every estimator and every scheduler that has a conf file keeps the contract."""

from collections.abc import Callable
from typing import Any

import pytest

from ragtune.core.interfaces import BaseEstimator, BaseScheduler
from ragtune.core.policy.batching import objection, propose
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.types import BatchProposal, RemainingBudgetView, StopRecord
from ragtune.testing import WORLDS, EstimatorContract, SchedulerContract, World, WorldReranker

EDGES = ["two sources", "constant first stage", "one candidate", "empty pool", "duplicates", "scores 1", "growing"]
"""Worlds that are unlike each other, for the dearest promise: one replay for several budgets, and one for each."""

in_edges = pytest.mark.parametrize("world", EDGES, indirect=True)


class TestEstimators(EstimatorContract):
    @pytest.fixture(autouse=True)
    def chosen(self, new_estimator: Callable[..., BaseEstimator]) -> None:
        self.new_estimator = new_estimator

    def make(self) -> BaseEstimator:
        return self.new_estimator(corpus=self.world.corpus, qrels={}, reranker=WorldReranker(self.world))

    @in_edges
    def test_one_replay_serves_smaller_budgets(self, made: BaseEstimator, world: World) -> None:
        super().test_one_replay_serves_smaller_budgets(made, world)


class TestSchedulers(SchedulerContract):
    @pytest.fixture(autouse=True)
    def chosen(self, new_scheduler: Callable[..., BaseScheduler]) -> None:
        self.new_scheduler = new_scheduler

    def make(self) -> BaseScheduler:
        return self.new_scheduler()

    @pytest.fixture
    def estimator(
        self, request: pytest.FixtureRequest, world: World, heard_estimators: list[Callable[..., BaseEstimator]]
    ) -> BaseEstimator:
        """One of those that may be combined with the scheduler, in turn from world to world."""
        makers = [make for make in heard_estimators if objection(self.made_by(make), self.make()) is None]
        self.new_estimator = makers[list(WORLDS).index(request.node.callspec.params["world"]) % len(makers)]
        return self.make_estimator()

    def make_estimator(self) -> BaseEstimator:
        return self.made_by(self.new_estimator)

    def made_by(self, make: Callable[..., BaseEstimator]) -> BaseEstimator:
        return make(corpus=self.world.corpus, qrels={}, reranker=WorldReranker(self.world))

    @in_edges
    def test_one_replay_serves_smaller_budgets(self, world: World) -> None:
        super().test_one_replay_serves_smaller_budgets(world)


class Stable(BaseScheduler):
    """Stops once the top 3 of the final order has been the same, in the same order, over two batches."""

    def select_batch(self, pool: CandidatePool, budget: RemainingBudgetView) -> BatchProposal | StopRecord:
        tops = [list(ranking[:3]) for ranking in pool.rankings[-3:]]
        if len(tops) == 3 and tops[0] == tops[1] == tops[2]:
            return StopRecord(reason="top_is_stable", source="scheduler", details={"batches": len(pool.batches)})
        return propose(pool.top_candidates(2), budget)


class TestStable(SchedulerContract):
    def make(self) -> BaseScheduler:
        return Stable()


def test_a_scheduler_sees_the_order_that_stopping_would_have_given_after_each_batch(fakes: Any) -> None:
    seen: list[list[list[str]]] = []

    class Watching(Stable):
        def select_batch(self, pool: CandidatePool, budget: RemainingBudgetView) -> BatchProposal | StopRecord:
            seen.append([list(ranking) for ranking in pool.rankings])
            return super().select_batch(pool, budget)

    best_first = [lambda items: {item.doc_id: 0.99 - item.initial_rank / 100 for item in items}] * 10
    output = fakes.controller(scheduler=Watching(), reranker=fakes.Reranker(script=best_first)).run("q")
    assert (output.stop.reason, output.final_budget_state["rerank_docs"]) == ("top_is_stable", 4)
    assert seen[-1] == [list(step.ranking) for step in output.history]
    assert [len(rankings) for rankings in seen] == [1, 2, 3]


def test_no_component_adds_to_the_past(fakes: Any) -> None:
    scheduler = fakes.Scheduler(choose=lambda pool, budget: pool.note(lambda: pool.doc_ids))
    assert fakes.controller(scheduler=scheduler).run("q").stop.reason == "scheduler_failed"
