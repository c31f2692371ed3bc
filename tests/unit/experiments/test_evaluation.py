"""Queries are measured as they are finished, in whatever company, and little of them is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from experiments.evaluate import baselines as evaluations
from experiments.evaluate import curves as steps_of
from experiments.evaluate import files
from experiments.evaluate.baselines import FULL, Evaluation, compare, compare_queries, depth_line
from experiments.evaluate.curves import Steps, curve
from experiments.evaluate.measures import Measures
from experiments.evaluate.outcomes import Outcome, Outcomes
from experiments.evaluate.record import Ranked
from experiments.evaluate.significance import Bootstrap
from experiments.evaluate.summary import summarize
from experiments.replay.build import session_for
from experiments.replay.records import baselines_of

Replayed = Callable[..., SimpleNamespace]
BOOTSTRAP: dict[str, Any] = {"resamples": 20, "level": 0.95, "seed": 0}


@pytest.fixture
def run(replayed: Replayed) -> SimpleNamespace:
    """A run, its baselines, and what they are measured by."""
    done = replayed("experiment=uncertainty", "budget.max_reranker_docs=6", "scheduler.batch_size=2")
    done.measures = Measures(["nDCG@10", "AP"], done.dataset.qrels)
    done.beaten = baselines_of(done.config, session_for(done.config))
    done.judged = [record for record in done.records if record.query_id in done.dataset.qrels]
    return done


@pytest.mark.parametrize(("together", "room"), [(1, 0), (2, 100), (64, 10**6)])
def test_how_many_queries_are_measured_at_once_makes_no_difference(
    run: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, together: int, room: int
) -> None:
    monkeypatch.setattr(files, "_ROOM", room)
    monkeypatch.setattr(steps_of, "_BLOCK", 3)
    (folder := tmp_path / "waiting").mkdir()
    found = Evaluation(run.dataset, run.measures, run.beaten, folder)
    monkeypatch.setattr(evaluations, "TOGETHER", together)
    for record in run.records:
        found.add(record)
    steps, expected = found.steps(), Steps.of(run.judged, run.measures)
    for name in ("counts", "costs", "values"):
        assert np.array_equal(getattr(steps, name), getattr(expected, name))
    drawn = curve(steps, run.measures.names, Bootstrap(**BOOTSTRAP), folder)
    in_memory = curve(expected, run.measures.names, Bootstrap(**BOOTSTRAP))
    for name in ("docs", "costs", "per_query", "low", "high"):
        assert np.array_equal(getattr(drawn, name), getattr(in_memory, name))
    replays = run.beaten(run.dataset.judged)
    compared = compare_queries(run.judged, replays, run.measures)
    against = compare(drawn, found.compared(), Bootstrap(**BOOTSTRAP))
    assert against == compare(drawn, compared, Bootstrap(**BOOTSTRAP))
    outcomes = found.outcomes()
    told = Outcomes(map(Outcome.of, run.records))
    assert summarize(run.dataset, outcomes, drawn, max_failed_share=0.5) == summarize(
        run.dataset, told, drawn, max_failed_share=0.5
    )
    assert outcomes == told
    line = depth_line([replays[FULL]], drawn, run.measures)
    assert found.depth_line(drawn) == line
    assert list(folder.iterdir()) == []  # what waits on disk has no name


def test_a_baseline_that_cannot_answer_a_later_query_is_left_out_of_all(
    run: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = run.dataset.judged[-1]

    def beaten(query_ids: Sequence[str]) -> dict[str, Sequence[Ranked]]:
        found = run.beaten(query_ids)
        return {name: found[name] for name in found if name != FULL or last not in query_ids}

    found = Evaluation(run.dataset, run.measures, beaten, tmp_path)
    monkeypatch.setattr(evaluations, "TOGETHER", 1)
    for record in run.judged:
        found.add(record)
    assert list(found.compared()) == ["fixed depth"]
    assert found.depth_line(curve(found.steps(), run.measures.names, Bootstrap(**BOOTSTRAP))) is None
