"""Jobs of a sweep that differ by a limit are replayed once, and each is what it would be alone."""

from collections.abc import Sequence

import pytest

from experiments.config.compose import compose, later_budgets
from experiments.config.options import RunConfig
from experiments.replay import records
from experiments.replay.build import session_for
from experiments.replay.component import component
from experiments.replay.records import replay_shard
from ragtune.core.request.budget import CostBudget

QUERIES = ["q01", "q02", "q03"]


def _configs(limits: Sequence[int | None], *options: str, limit: str = "docs") -> list[RunConfig]:
    made = [
        compose(["tracking=none", *options, f"budget.max_reranker_{limit}={'null' if n is None else n}"])
        for n in limits
    ]
    budgets = [component(config, "budget") for config in made]
    return [RunConfig(config, str(options), budgets[i + 1 :]) for i, config in enumerate(made)]


def _lines(config: RunConfig) -> list[bytes]:
    session_for(config).controller.forget_failures()
    return [record.to_line() for record in replay_shard(config, QUERIES)]


def _alone(config: RunConfig) -> list[bytes]:
    return _lines(config.without())


@pytest.mark.parametrize("room", [0, 20_000])
def test_what_finds_no_room_is_replayed_by_its_own_job(monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    monkeypatch.setattr(records, "_ROOM", room)
    configs = _configs((3, 6, 9), "experiment=uncertainty", f"seed={room}")
    assert [_lines(config) for config in configs] == [_alone(config) for config in configs]


def test_a_failure_under_another_budget_is_no_word_on_this_job() -> None:
    """A request whose only batch fails closes the strategy for the run (rule F3); a larger budget has it send more."""
    session = session_for(compose(["tracking=none", "estimator=baseline"]))
    output = session.controller.run(session.dataset.queries[QUERIES[0]], query_id=QUERIES[0])
    broken = "reranker._target_=misbehaving.Broken", f"+reranker.on={output.history[0].doc_ids[0]}"
    policy = "estimator=baseline", "scheduler.batch_size=2", "failures.requests_in_a_row=1"
    configs = _configs((2, 30), *policy, *broken)
    expected = [_alone(config) for config in configs]
    assert expected[0] != expected[1]
    assert [_lines(config) for config in configs] == expected


def test_later_jobs_that_differ_by_one_limit_alone_are_found() -> None:
    budget = CostBudget(max_reranker_docs=5)
    limits = ["budget.max_reranker_docs=5", "budget.max_reranker_docs=10", "budget.max_reranker_docs=null"]
    jobs = [[f"estimator={policy}", limit] for policy in ("a", "b") for limit in limits]
    assert [each.max_reranker_docs for each in later_budgets(budget, jobs[0], jobs)] == [10, None]
    assert [each.max_reranker_docs for each in later_budgets(budget, jobs[4], jobs)] == [None]
    assert later_budgets(budget, jobs[5], jobs) == later_budgets(budget, ["seed=1"], jobs) == []
    calls = [["seed=1", f"budget.max_reranker_calls={n}"] for n in (2, 4)]
    assert later_budgets(budget, calls[0], calls) == [CostBudget(max_reranker_docs=5, max_reranker_calls=4)]
    others = [["seed=1"], ["seed=1", limits[1]], ["budget=tight", limits[0]]]
    assert later_budgets(budget, others[0], others) == []
