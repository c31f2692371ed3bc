"""Quality-versus-cost curves: step semantics, area, first reached, bootstrap."""

from __future__ import annotations

import math

import numpy as np
import pytest

from experiments.evaluate import significance
from experiments.evaluate.curves import Curve, Steps, curve
from experiments.evaluate.measures import Measures
from experiments.evaluate.record import UNITS, QueryRecord
from experiments.evaluate.significance import Bootstrap

QRELS = {"q1": {"a": 1}, "q2": {"b": 1}}
RR = Measures(["RR@10", "AP"], QRELS)


def record(query_id: str, docs: list[int], rankings: list[list[int]], doc_ids: str = "abc") -> QueryRecord:
    return QueryRecord(
        query_id=query_id,
        doc_ids=list(doc_ids),
        rankings=rankings,
        costs=[[n, n / 2, 10.0 * n, 3.0 * n, 0.0] for n in docs],
        actual=[0.0] * len(UNITS),
        stop={"reason": "budget_exhausted"},
        account={},
        dropped={},
        context_docs=0,
        context_tokens=0,
        trace="{}",
    )


def _curve(records: list[QueryRecord], bootstrap: Bootstrap) -> Curve:
    return curve(Steps.of(records, RR), RR.names, bootstrap)


@pytest.fixture
def drawn() -> Curve:
    first = record("q1", [0, 2, 4], [[2, 1, 0], [1, 0, 2], [0, 1, 2]])  # RR 1/3, 1/2, 1
    second = record("q2", [0, 3], [[0, 1, 2], [1, 0, 2]])  # RR 1/2, 1
    return _curve([first, second], Bootstrap(resamples=50, level=0.9, seed=1))


def test_at_each_step_a_query_is_in_the_latest_state_that_the_step_pays_for(drawn: Curve) -> None:
    assert drawn.docs.tolist() == [0, 2, 3, 4]
    assert drawn.per_query[:, :, 0] == pytest.approx(np.array([[1 / 3, 1 / 2, 1 / 2, 1], [1 / 2, 1 / 2, 1, 1]]))
    assert drawn.costs[:, UNITS.index("docs")].tolist() == [0, 1, 2.5, 3.5]
    assert drawn.costs[:, UNITS.index("tokens")].tolist() == [0, 10, 25, 35]


def test_costs_are_rounded_as_one_sum_whatever_the_blocks_of_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    steps = Steps(np.ones(50, dtype=int), rng.random((50, len(UNITS))), rng.random((50, 2)), rng.random((50, 2)))
    steps.costs[:, 0] = 0.0
    monkeypatch.setattr("experiments.evaluate.curves._BLOCK", 7)
    drawn = curve(steps, RR.names, Bootstrap(resamples=1, level=0.9, seed=0))
    assert drawn.costs[0].tolist() == steps.costs.mean(axis=0).tolist()


def test_the_area_is_the_mean_height_of_the_step_curve(drawn: Curve) -> None:
    heights, widths = [5 / 12, 1 / 2, 3 / 4], [2, 1, 1]
    assert drawn.area() == pytest.approx(np.dot(heights, widths) / 4)


def test_documents_to_a_share_is_the_first_step_that_reaches_it(drawn: Curve) -> None:
    assert [drawn.docs_to(share, 1.0) for share in (0.5, 0.75, 1.0, 1.1)] == [2, 3, 4, None]


@pytest.mark.parametrize("n", [400, 2500])  # drawn in two ways
def test_the_interval_has_the_width_that_the_normal_theory_predicts(n: int) -> None:
    values = np.random.default_rng(3).normal(size=(n, 1))
    low, high = Bootstrap(4000, 0.95, 0).interval(values)
    predicted = 2 * 1.96 * values.std() / math.sqrt(n)
    assert (high - low)[0] == pytest.approx(predicted, rel=0.08)
    assert ((low + high) / 2)[0] == pytest.approx(values.mean(), abs=0.1 * predicted)
    assert (significance._counts(np.random.default_rng(0), n, 7).sum(axis=1) == n).all()
