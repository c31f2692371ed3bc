"""Decisions: what was scored in which batch, what was expected of it, and where it ended."""

from __future__ import annotations

from types import SimpleNamespace

from experiments.study.decisions import ROW, decisions_from_trace, decisions_of


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


def test_a_failed_batch_has_no_rows_and_shifts_nothing(fakes: SimpleNamespace) -> None:
    reranker = fakes.Reranker(script=[RuntimeError("on fire")])
    output = fakes.controller(documents=fakes.docs(5), scheduler=fakes.Scheduler(batch_size=2), reranker=reranker).run(
        "q"
    )
    found = decisions_of(output)
    assert field(found, "batch") == [2, 2, 3]
    assert field(found, "open") == [3, 3, 1]


def test_a_written_trace_gives_the_same_rows_without_the_values(fakes: SimpleNamespace) -> None:
    output = fakes.controller(documents=fakes.docs(5)).run("query")
    written = decisions_from_trace(output.trace.model_dump(), None, list(output.ranking))
    known = decisions_of(output)
    for name in ("batch", "doc", "score", "final_rank"):
        assert field(written, name) == field(known, name)
    assert set(field(written, "estimate") + field(written, "first_rank")) == {None}
