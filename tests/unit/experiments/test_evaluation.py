"""Queries are measured as they are finished, in whatever order and company, and little of them is kept."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from experiments.evaluate import evaluation as evaluations
from experiments.evaluate import rows
from experiments.evaluate import steps as steps_of
from experiments.evaluate.curves import Bootstrap, curve
from experiments.evaluate.evaluation import Evaluation
from experiments.evaluate.incumbents import EVERYTHING, compare, depth_line, face
from experiments.evaluate.measures import Measures
from experiments.evaluate.outcomes import Outcomes
from experiments.evaluate.record import QueryRecord, Ranked
from experiments.evaluate.rows import Rows, taken
from experiments.evaluate.spool import Spool
from experiments.evaluate.steps import Steps
from experiments.evaluate.summary import summarize
from experiments.replay.subjects.controller import ControllerSubject

Replayed = Callable[..., SimpleNamespace]
BOOTSTRAP: dict[str, Any] = {"resamples": 20, "level": 0.95, "seed": 0}


@pytest.fixture
def run(replayed: Replayed) -> SimpleNamespace:
    """A run, its incumbents, and what they are measured by."""
    done = replayed("experiment=uncertainty", "budget.max_reranker_docs=6", "scheduler.batch_size=2")
    done.measures = Measures(["nDCG@10", "AP"], done.dataset.qrels)
    done.beaten = ControllerSubject().incumbents(done.config).over
    done.judged = [record for record in done.records if record.query_id in done.dataset.qrels]
    return done


@pytest.mark.parametrize(("size", "together", "room"), [(1, 1, 0), (1, 2, 100), (3, 64, 10**6)])
def test_the_order_and_the_company_in_which_queries_are_finished_make_no_difference(
    run: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, together: int, room: int
) -> None:
    for module in (evaluations, rows):
        monkeypatch.setattr(module, "_ROOM", room)
    for module in (rows, steps_of):
        monkeypatch.setattr(module, "_BLOCK", 3)
    (folder := tmp_path / "waiting").mkdir()
    found = Evaluation(run.dataset, run.measures, run.beaten, folder)
    monkeypatch.setattr(evaluations, "TOGETHER", together)
    backwards = run.records[::-1]
    for start in range(0, len(backwards), size):
        found.add(backwards[start : start + size])
    steps, expected = found.steps(), Steps.of(run.judged, run.measures)
    for name in ("counts", "costs", "values"):
        assert np.array_equal(getattr(steps, name), getattr(expected, name))
    drawn = curve(steps, run.measures.names, Bootstrap(**BOOTSTRAP), folder)
    in_memory = curve(expected, run.measures.names, Bootstrap(**BOOTSTRAP))
    for name in ("docs", "costs", "per_query", "low", "high"):
        assert np.array_equal(getattr(drawn, name), getattr(in_memory, name))
    replays = run.beaten(run.dataset.judged)
    faced = face(run.judged, replays, run.measures)
    against = compare(drawn, found.faced(), Bootstrap(**BOOTSTRAP), folder)
    assert against == compare(drawn, faced, Bootstrap(**BOOTSTRAP))
    outcomes = found.outcomes()
    told = Outcomes.of(run.records)
    assert summarize(run.dataset, outcomes, drawn, max_failed_share=0.5) == summarize(
        run.dataset, told, drawn, max_failed_share=0.5
    )
    for name in ("query_ids", "stop_reasons", "mishaps", "unfinished"):
        assert getattr(outcomes, name) == getattr(told, name)
    line = depth_line([replays[EVERYTHING]], drawn, run.measures)
    assert found.depth_line(drawn) == line
    assert list(folder.iterdir()) == []  # what waits on disk has no name


def test_a_long_id_takes_no_room_beside_each_other(run: SimpleNamespace, tmp_path: Path) -> None:
    ids = ["q" * 100_000, *map(str, range(300))]
    dataset = replace(run.dataset, queries=dict.fromkeys(ids, "text"))
    record = QueryRecord.from_line(run.records[0].to_line())
    found = Evaluation(dataset, run.measures, run.beaten, tmp_path)
    found.add([replace(record, query_id=query_id) for query_id in reversed(ids)])
    tracemalloc.start()
    try:
        assert found.outcomes().query_ids == ids
        assert tracemalloc.get_traced_memory()[1] < 10e6
    finally:
        tracemalloc.stop()


def test_an_incumbent_that_cannot_answer_a_later_query_is_left_out_of_all(run: SimpleNamespace, tmp_path: Path) -> None:
    last = run.dataset.judged[-1]

    def beaten(query_ids: Sequence[str]) -> dict[str, Sequence[Ranked]]:
        found = run.beaten(query_ids)
        return {name: found[name] for name in found if name != EVERYTHING or last not in query_ids}

    found = Evaluation(run.dataset, run.measures, beaten, tmp_path)
    for record in run.judged:
        found.add([record])
    assert list(found.faced()) == ["fixed depth"]
    assert found.depth_line(curve(found.steps(), run.measures.names, Bootstrap(**BOOTSTRAP))) is None


def test_what_is_spooled_comes_back_in_its_order_each_time(tmp_path: Path) -> None:
    spool: Spool[str] = Spool(tmp_path, room=3)
    things = ["a", "bb", "ccc", "d"]
    for thing in things:
        spool.append(thing, len(thing))
    assert [list(spool), list(spool)] == [things, things]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("room", [0, 50, 10**6])
@pytest.mark.parametrize("kind", [np.int64, np.float64, np.uint8])
def test_rows_come_back_as_they_were_added_wherever_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int, kind: type
) -> None:
    monkeypatch.setattr(rows, "_ROOM", room)
    monkeypatch.setattr(rows, "_BLOCK", 2)
    numbers = np.arange(24).astype(kind).reshape(6, 2, 2)
    found = Rows(tmp_path)
    for start, end in ((0, 0), (0, 1), (1, 5)):
        found.extend(numbers[start:end])
    whole = found.whole()
    found.extend(numbers[5:, :, ::-1][:, :, ::-1])  # not one piece of memory
    for some, expected in ((whole, numbers[:5]), (found.whole(), numbers)):
        assert (some.dtype, some.shape) == (expected.dtype, expected.shape)
        assert np.array_equal(some, expected)
    places = np.array([5, 0, 3, 3, 1])
    for folder in (tmp_path, None):
        assert np.array_equal(taken(found.whole(), places, folder), numbers[places])
    assert list(tmp_path.iterdir()) == []
