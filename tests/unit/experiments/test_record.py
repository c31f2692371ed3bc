"""Records are plain data that survive being written."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest

from experiments.evaluate.record import UNITS, QueryRecord, ties_of


def record_of(fakes: SimpleNamespace, **parts: object) -> tuple[object, QueryRecord]:
    output = fakes.controller(documents=fakes.docs(12), **parts).run("query", query_id="q7")
    return output, QueryRecord.of(output)


def test_a_record_survives_being_written(fakes: SimpleNamespace) -> None:
    _, record = record_of(fakes)
    line = record.to_line()
    assert b"\n" not in line
    assert QueryRecord.from_line(line) == record


def test_a_record_holds_every_anytime_ranking_and_its_cost(fakes: SimpleNamespace) -> None:
    output, record = record_of(fakes)
    assert record.query_id == "q7"
    assert [[record.doc_ids[i] for i in ranking] for ranking in record.rankings] == [
        list(step.ranking) for step in output.history
    ]
    assert [step[UNITS.index("docs")] for step in record.costs] == [0, 5, 10, 12]
    assert record.ranking == list(output.ranking)
    assert record.charged == record.costs[-1]
    assert json.loads(record.trace)["query_id"] == "q7"


@pytest.mark.parametrize(
    ("scores", "tied"),
    [
        ([], [0, 0]),
        ([0.5, math.nan, 0.5, 0.25], [2, 3]),
        ([1.0, *[0.9] * 8, 0.8, 0.8, 0.8, 0.1, 0.1], [11, 12]),  # three documents for the tenth place
        ([*np.linspace(1.0, 0.5, 10), 0.1, 0.1], [0, 10]),  # a tie that no top 10 depends on
    ],
)
def test_ties_are_counted_among_the_scores_that_decide_the_top_10(scores: list[float], tied: list[int]) -> None:
    assert ties_of(np.array(scores, dtype=float)) == tied
