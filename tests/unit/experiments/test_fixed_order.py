"""What is replayed without the loop is what the loop does, to the last byte."""

from __future__ import annotations

import gc
import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Any
from weakref import ref

import numpy as np
import pytest

from experiments.config.compose import compose, results_key
from experiments.evaluate.record import QueryRecord
from experiments.replay import shard
from experiments.replay.build import INPUTS, SWEPT, controller_of
from experiments.replay.fixed_order import FixedOrders, has_fixed_order
from experiments.replay.sessions import session_for
from experiments.replay.shard import KeptReplays, begin, in_shards
from experiments.replay.subjects.controller import ControllerSubject
from ragtune.assemblers.greedy import GreedyAssembler
from ragtune.core.policy.scaling import first_stage_scores
from ragtune.core.pool.items import PoolItem
from ragtune.core.pool.ordering import Ordering
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.pool.valuation import Valuation
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import BatchPlan, BatchProposal, RemainingBudgetView, ScoredDocument, StopRecord
from ragtune.estimators.baseline import BaselineEstimator
from ragtune.rerankers.replay import ReplayReranker
from ragtune.schedulers.one_shot import OneShotScheduler

LIMITS = [{}, {"docs": 0}, {"docs": 25}, {"calls": 0}, {"calls": 3}, {"docs": 33, "calls": 3}, {"docs": 1000}]

POLICIES = [
    ["experiment=fixed_depth"],
    ["experiment=fixed_depth", "scheduler.top_n=7"],
    [
        "experiment=score_oracle",
        "reranker.ms_per_doc=0.7",
        "reranker.usd_per_doc=1e-4",
        "reranker.architecture=t5-base",
    ],
    ["experiment=qrels_oracle", "assembler.ordering=posterior", "scheduler.batch_size=7"],
    ["estimator=baseline", "scheduler=sliding_window", "assembler.ordering=final_score"],
]


@pytest.mark.parametrize("policy", POLICIES, ids=" ".join)
def test_records_are_the_loops_under_every_limit(policy: list[str]) -> None:
    session = session_for(results_key(compose(["tracking=none", "budget=unlimited", *policy])))
    queries = dict(list(session.dataset.queries.items())[:3])
    orders = FixedOrders(session, begin(session, queries))
    for limits in LIMITS:
        named = {f"max_reranker_{unit}": limit for unit, limit in limits.items()}
        budget = session.parts["budget"].model_copy(update=named)
        assert has_fixed_order(session, budget)
        expected = [
            QueryRecord.of(session.controller.run(text, budget, query_id=query_id))
            for query_id, text in queries.items()
        ]
        assert [record.to_line() for record in orders.under(budget)] == [record.to_line() for record in expected]
        ranked = [(one.query_id, one.ranking, one.docs) for one in orders.ranked_under(budget)]
        assert ranked == [(one.query_id, one.ranking, one.charged[0]) for one in expected]


@pytest.mark.parametrize(
    "override",
    [
        "estimator=similarity",
        "scheduler=settled",
        "reranker=noop",
        "budget.max_tokens=500",
        "budget.max_latency_ms=90",
        "budget.max_flops=1e12",
        "clock=monotonic",
        "+reranker@rerankers.llm=noop",
    ],
)
def test_what_a_score_a_token_or_a_clock_may_change_goes_through_the_loop(override: str) -> None:
    config = compose(["tracking=none", "budget=unlimited", "estimator=baseline", override])
    session = session_for(results_key(config))
    assert not has_fixed_order(session, session.parts["budget"])


def test_jobs_that_differ_by_their_budget_share_their_parts_and_answer_as_each_would_alone() -> None:
    subject = ControllerSubject()
    configs = [
        compose(["tracking=none", "experiment=fixed_depth", f"budget.max_reranker_docs={docs}"]) for docs in (7, 20)
    ]
    first, second = ({**config, INPUTS: "as they are", SWEPT: [config["budget"]]} for config in configs)
    shared = [session_for(results_key(first)), session_for(results_key(second))]
    assert shared[0].parts["retriever"] is shared[1].parts["retriever"]
    query_ids = list(shared[0].dataset.queries)[:3]
    for config, alone in ((second, configs[1]), (first, configs[0])):
        told = subject.replay_shard(results_key(config), query_ids)
        expected = subject.replay_shard(results_key(alone), query_ids)
        assert [record.to_line() for record in told] == [record.to_line() for record in expected]
    changed = session_for(results_key({**second, INPUTS: "changed"}))
    assert changed.rerankers["default"] is not shared[1].rerankers["default"]


def test_the_parts_of_a_former_job_are_let_go_of_before_garbage_is_looked_for() -> None:
    subject, parts = ControllerSubject(), []
    gc.disable()
    try:
        for seed in range(3):
            config = compose(["tracking=none", "experiment=fixed_depth", f"seed={seed}"])
            key = results_key({**config, INPUTS: "as they are", SWEPT: [config["budget"]]})
            subject.replay_shard(key, ["q01", "q02"])
            parts.append(ref(session_for(key).parts["retriever"]))
    finally:
        gc.enable()
    assert [part() is None for part in parts] == [True, False, False]


class _Own(GreedyAssembler):
    """Assembles in a way of its own, of which its parent has said nothing."""

    def assemble(self, items: Sequence[PoolItem], context: RAGtuneContext) -> list[ScoredDocument]:
        return super().assemble(items, context)[:3]


class _OwnReranker(ReplayReranker):
    """Scores in a way of its own, of which its parent has said nothing."""

    def rerank(self, items: Sequence[PoolItem], context: RAGtuneContext, strategy: str) -> dict[str, float]:
        return {doc_id: score / 2 for doc_id, score in super().rerank(items, context, strategy).items()}


def test_a_part_that_does_it_in_a_way_of_its_own_is_asked() -> None:
    session = session_for(results_key(compose(["tracking=none", "experiment=fixed_depth"])))
    budget, reranker = session.parts["budget"], session.rerankers["default"]
    assert has_fixed_order(session, budget)
    by_budget = BaselineEstimator()
    by_budget.reads_budget = True  # what it said under one budget says nothing of another
    parts = {**session.parts, "estimator": by_budget}
    controller = controller_of(compose(["tracking=none"]), parts, session.rerankers)
    assert not has_fixed_order(replace(session, parts=parts, controller=controller), budget)
    own = {**session.parts, "assembler": _Own(Ordering.RERANKED_FIRST)}
    assert not has_fixed_order(replace(session, parts=own), budget)
    assert isinstance(reranker, ReplayReranker)
    rerankers = {"default": _OwnReranker(str(reranker.table.path), reranker.table.scale)}
    assert not has_fixed_order(replace(session, rerankers=rerankers), budget)


class _Outspoken(OneShotScheduler):
    """Says the same with every batch and when it stops."""

    def __init__(self, says: dict[str, Any]) -> None:
        super().__init__(top_n=3)
        self._says = says

    def select_batch(self, pool: CandidatePool, budget: RemainingBudgetView) -> BatchProposal | StopRecord:
        said = super().select_batch(pool, budget)
        name = "diagnostics" if isinstance(said, BatchProposal) else "details"
        return said.model_copy(update={name: self._says})

    def plan(self, pool: CandidatePool) -> BatchPlan:
        plan = super().plan(pool)
        return BatchPlan(plan.sizes, plan.stop.model_copy(update={"details": self._says}), self._says)


@pytest.mark.parametrize(
    "says",
    [
        {"share": np.float64(0.5), "many": 2**64, "at": {1: {None: 2}}, "margin": math.nan, "id": np.str_("d")},
        {"seen": {"d"}, "share": np.float32(0.5)},
        {"day": date(2024, 2, 29)},
    ],
    ids=["what JSON can hold", "what it cannot", "what a writer of JSON knows"],
)
def test_whatever_a_scheduler_of_others_says_is_told_as_the_loop_tells_it(says: dict[str, Any]) -> None:
    config = compose(["tracking=none", "experiment=fixed_depth", "budget=unlimited"])
    session = session_for(results_key(config))
    parts = {**session.parts, "scheduler": _Outspoken(says)}
    session = replace(session, parts=parts, controller=controller_of(config, parts, session.rerankers))
    query_id, text = next(iter(session.dataset.queries.items()))
    assert has_fixed_order(session, parts["budget"])
    [record] = FixedOrders(session, begin(session, [query_id])).under(parts["budget"])
    assert record.trace == session.controller.run(text, parts["budget"], query_id=query_id).trace.model_dump_json()


class _OutspokenEstimator(BaselineEstimator):
    """Says how many documents there are whenever it is asked."""

    def value(self, pool: CandidatePool, context: RAGtuneContext) -> Valuation:
        return pool.valuation(first_stage_scores(pool), diagnostics={"valued": np.int64(len(pool))})


def test_what_an_estimator_says_is_told_whenever_it_would_have_been_asked() -> None:
    config = compose(["tracking=none", "estimator=baseline", "scheduler.batch_size=4", "budget=tight"])
    session = session_for(results_key(config))
    parts = {**session.parts, "estimator": _OutspokenEstimator()}
    session = replace(session, parts=parts, controller=controller_of(config, parts, session.rerankers))
    query_id, text = next(iter(session.dataset.queries.items()))
    assert has_fixed_order(session, parts["budget"])
    [record] = FixedOrders(session, begin(session, [query_id])).under(parts["budget"])
    expected = QueryRecord.of(session.controller.run(text, parts["budget"], query_id=query_id))
    assert record.to_line() == expected.to_line()
    assert record.trace.count('"valued":') == 6


@pytest.mark.parametrize(("depth", "sizes"), [(10, [64, 64, 2]), (200, [32, 32, 32, 32, 2]), (10_000, [1] * 130)])
def test_the_deeper_the_pools_the_fewer_queries_are_in_memory_together(depth: int, sizes: list[int]) -> None:
    config = compose(["tracking=none", "experiment=fixed_depth", f"retrieval.original_query_depth={depth}"])
    query_ids = [f"q{i}" for i in range(130)]
    shards = list(in_shards(session_for(results_key(config)), query_ids))
    assert list(map(len, shards)) == sizes
    assert [query_id for some in shards for query_id in some] == query_ids
    assert ControllerSubject().at_once(results_key(config)) == sizes[0]


def test_all_is_kept_of_the_first_queries_and_of_the_others_the_latest_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    session = session_for(results_key(compose(["tracking=none", "experiment=fixed_depth"])))
    one, two, three = ([query_id] for query_id in list(session.dataset.queries)[:3])
    begun: list[str] = []
    monkeypatch.setattr(shard, "begin", lambda session, ids: [begun.extend(ids), *begin(session, ids)][1:])
    kept = KeptReplays(room=1)
    for query_ids in (one, two, one, two, three, three, two):
        for policy in ("own", "fixed depth"):
            replay = kept.of(session, query_ids, policy)
            assert [record.query_id for record in replay.under(session.parts["budget"])] == query_ids
    assert begun == [*one, *two, *three, *two]
