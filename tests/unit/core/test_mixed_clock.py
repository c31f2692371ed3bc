"""Recorded, cached and live time in one request: one clock."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ragtune import CostBudget
from ragtune.core.request.clock import MonotonicClock
from ragtune.core.types import BatchProposal, CostObject


def in_turn(*strategies: str) -> Any:
    """Chooses batches of two, by each strategy in turn, until nothing is affordable."""
    turns = iter(strategies * 10)

    def choose(pool: Any, budget: Any) -> BatchProposal:
        return BatchProposal(doc_ids=pool.top_candidates(2), strategy=next(turns))

    return choose


@pytest.mark.parametrize("strategies", [("recorded", "live"), ("live", "recorded")])
def test_recorded_batches_take_the_time_that_they_took_beside_live_ones(
    fakes: SimpleNamespace, strategies: tuple[str, str]
) -> None:
    recorded = fakes.Reranker(cost=lambda items: CostObject(docs=len(items), calls=1, latency_ms=100_000.0))
    live = fakes.Reranker(recorded=False)
    controller = fakes.controller(
        reranker={name: {"recorded": recorded, "live": live}[name] for name in strategies},
        scheduler=fakes.Scheduler(choose=in_turn(*strategies)),
        budget=CostBudget.only(max_latency_ms=250_000.0),
    )
    output = controller.run("q")
    assert len(recorded.batches) == 2
    assert 200_000.0 <= output.final_budget_state["latency"] < 250_000.0


def test_a_cached_batch_takes_the_time_that_it_took_when_it_was_made(fakes: SimpleNamespace) -> None:
    cached = fakes.Reranker(
        recorded=False, act=lambda context: context.meter.charge(CostObject(docs=5, calls=1, latency_ms=100_000.0))
    )
    limit = CostBudget.only(max_latency_ms=250_000.0)
    output = fakes.controller(reranker=cached, budget=limit, clock_factory=MonotonicClock).run("q")
    assert 2 <= len(cached.batches) <= 3  # the third, where nothing is expected of it, may start at 200 s
    assert output.history[-1].cost.latency_ms >= 200_000.0
