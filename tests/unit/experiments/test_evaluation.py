"""Queries are measured as they are finished, in whatever company, and little of them is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from experiments.evaluate import baselines as evaluations
from experiments.evaluate.baselines import FULL, Evaluation
from experiments.evaluate.curves import curve
from experiments.evaluate.measures import Measures
from experiments.evaluate.record import Ranked
from experiments.evaluate.significance import Bootstrap
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
    assert list(found.compared()) == ["fixed depth", "interpolated fixed depth"]
    assert found.depth_line(curve(found.steps(), run.measures.names, Bootstrap(**BOOTSTRAP))) is None
