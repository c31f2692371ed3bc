"""Decisions: what was scored in which batch, with which outcome and cost, and where it ended."""

from __future__ import annotations

from types import SimpleNamespace

from experiments.evaluate.record import UNITS
from experiments.report.decisions import ROW, STEP, decisions_of


def test_rows_follow_the_batches(fakes: SimpleNamespace) -> None:
    output = fakes.controller(documents=fakes.docs(7), scheduler=fakes.Scheduler(batch_size=3)).run("query")
    found = decisions_of(output.trace.model_dump(), output.ranking, output.history[-1].doc_ids)
    rows = [dict(zip(ROW, row, strict=True)) for row in found["rows"]]
    assert [row["batch"] for row in rows] == [1, 1, 1, 2, 2, 2, 3]
    assert [row["doc"] for row in rows] == [f"doc_{i:03d}" for i in range(7)]
    assert [row["first_rank"] for row in rows] == [1, 2, 3, 4, 5, 6, 7]
    assert [row["score"] for row in rows] == [(i + 1) / 1000 for i in range(7)]
    assert all(output.ranking[row["final_rank"] - 1] == row["doc"] for row in rows)
    assert found["stop"]["reason"] == "pool_exhausted"
    assert found["ranking"] == list(output.ranking)


def test_each_step_has_its_outcome_and_the_cost_so_far(fakes: SimpleNamespace) -> None:
    reranker = fakes.Reranker(script=[RuntimeError("on fire")])
    scheduler = fakes.Scheduler(batch_size=2)
    output = fakes.controller(documents=fakes.docs(5), scheduler=scheduler, reranker=reranker).run("q")
    trace = output.trace.model_dump()
    steps = [dict(zip(STEP, step, strict=True)) for step in decisions_of(trace, output.ranking)["steps"]]
    outcomes = [(s["batch"], s["asked"], s["outcome"]) for s in steps]
    assert outcomes == [(1, 2, "failed"), (2, 2, "scored"), (3, 1, "scored")]
    assert "on fire" in steps[0]["reason"]["error"]
    assert steps[-1]["cost"][:2] == [output.history[-1].cost.docs, output.history[-1].cost.calls]
    first = next(i for i, event in enumerate(trace["events"]) if event["action"] == "propose")
    denial = {"timestamp": 0.0, "component": "budget", "action": "deny_rerank", "details": {"reason": "usd_limit"}}
    trace["events"][first + 1 :] = [denial]
    (step,) = decisions_of(trace, [])["steps"]
    assert step[STEP.index("outcome") :] == ["denied", {"reason": "usd_limit"}, [0.0] * len(UNITS)]
