"""Decisions: what was scored in which batch, what was expected of it, and where it ended."""

from __future__ import annotations

from types import SimpleNamespace

from experiments.evaluate.record import UNITS
from experiments.report.decisions import ROW, STEP, decisions_from_trace, decisions_of


def field(decisions: dict, name: str) -> list:
    return [row[ROW.index(name)] for row in decisions["rows"]]


def test_rows_follow_the_batches_with_what_was_known_before_each(fakes: SimpleNamespace) -> None:
    output = fakes.controller(documents=fakes.docs(7), scheduler=fakes.Scheduler(batch_size=3)).run("query")
    found = decisions_of(output)
    assert field(found, "batch") == [1, 1, 1, 2, 2, 2, 3]
    assert field(found, "doc") == [f"doc_{i:03d}" for i in range(7)]
    assert field(found, "first_rank") == [1, 2, 3, 4, 5, 6, 7]
    assert field(found, "standing") == [1, 2, 3, 1, 2, 3, 1]
    assert field(found, "open") == [7, 7, 7, 4, 4, 4, 1]
    assert field(found, "score") == [(i + 1) / 1000 for i in range(7)]
    assert [output.ranking[rank - 1] for rank in field(found, "final_rank")] == field(found, "doc")
    assert found["stop"]["reason"] == "pool_exhausted"
    assert found["ranking"] == list(output.ranking)


def test_a_written_trace_gives_the_same_rows_without_the_values(fakes: SimpleNamespace) -> None:
    output = fakes.controller(documents=fakes.docs(5)).run("query")
    written = decisions_from_trace(output.trace.model_dump(), None, list(output.ranking))
    known = decisions_of(output)
    for name in ("batch", "doc", "score", "final_rank"):
        assert field(written, name) == field(known, name)
    assert set(field(written, "estimate") + field(written, "first_rank")) == {None}


def test_each_step_says_what_became_of_it_and_what_all_cost_so_far(fakes: SimpleNamespace) -> None:
    reranker = fakes.Reranker(script=[RuntimeError("on fire")])
    output = fakes.controller(documents=fakes.docs(5), scheduler=fakes.Scheduler(batch_size=2), reranker=reranker).run(
        "q"
    )
    steps = [dict(zip(STEP, step, strict=True)) for step in decisions_of(output)["steps"]]
    assert [(s["batch"], s["asked"], s["outcome"]) for s in steps] == [
        (1, 2, "failed"),
        (2, 2, "scored"),
        (3, 1, "scored"),
    ]
    assert "on fire" in steps[0]["reason"]["error"]
    assert steps[-1]["cost"][:2] == [output.history[-1].cost.docs, output.history[-1].cost.calls]


def test_a_denied_batch_is_a_step_with_the_account_that_cannot_pay(fakes: SimpleNamespace) -> None:
    output = fakes.controller(documents=fakes.docs(5), scheduler=fakes.Scheduler(batch_size=2)).run("q")
    trace = output.trace.model_dump()
    first = next(i for i, event in enumerate(trace["events"]) if event["action"] == "propose")
    denial = {"timestamp": 0.0, "component": "budget", "action": "deny_rerank", "details": {"reason": "usd_limit"}}
    trace["events"][first + 1 :] = [denial]
    (step,) = decisions_from_trace(trace, None, [])["steps"]
    assert step[STEP.index("outcome") :] == ["denied", {"reason": "usd_limit"}, [0.0] * len(UNITS)]


def test_ranks_before_and_after_a_batch_are_those_of_the_results_at_that_time(fakes: SimpleNamespace) -> None:
    output = fakes.controller(documents=fakes.docs(7), scheduler=fakes.Scheduler(batch_size=3)).run("query")
    found = decisions_of(output, [0.1, 0.2, 0.3, 0.4])
    for batch, doc, before, after in zip(*(field(found, n) for n in ("batch", "doc", "before", "after")), strict=True):
        assert output.history[batch - 1].ranking[before - 1] == doc
        assert output.history[batch].ranking[after - 1] == doc
    assert found["quality"] == [0.1, 0.2, 0.3, 0.4]
