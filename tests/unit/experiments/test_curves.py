"""Curves of quality against cost, and tests, corrections, areas and fronts by hand, by SciPy or by their definition."""

from __future__ import annotations

import math

import numpy as np
import pytest

from experiments.evaluate import significance
from experiments.evaluate.curves import Curve, Steps, area, curve
from experiments.evaluate.measures import Measures
from experiments.evaluate.record import UNITS, QueryRecord
from experiments.evaluate.significance import (
    Bootstrap,
    cost_to_reach,
    holm,
    paired_tests,
    pareto_front,
    randomization_test,
    wins_losses_ties,
)

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


def test_holm_matches_a_table_worked_out_by_hand_and_never_passes_one() -> None:
    # sorted .01 .02 .03 .04, times 4 3 2 1, made monotone
    assert holm([0.04, 0.01, 0.03, 0.02]).tolist() == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert [holm(some).tolist() for some in ([0.6, 0.7], [0.03], [])] == [[1.0, 1.0], [0.03], []]


def test_the_t_test_is_scipys() -> None:
    from scipy.stats import ttest_rel

    rng = np.random.default_rng(1)
    ours, theirs = rng.random((30, 3)), rng.random((30, 3))
    assert paired_tests(ours - theirs, permutations=99, seed=0)[0] == pytest.approx(ttest_rel(ours, theirs).pvalue)


def test_the_randomization_test_agrees_with_scipys_permutation_test() -> None:
    from scipy.stats import permutation_test

    differences = np.random.default_rng(2).normal(0.3, 1.0, size=(40, 1))
    mine, again = (paired_tests(side, permutations=20_000, seed=0)[1][0] for side in (differences, -differences))
    assert mine == again
    theirs = permutation_test(
        (differences[:, 0],), np.sum, permutation_type="samples", n_resamples=20_000, rng=np.random.default_rng(3)
    )
    assert mine == pytest.approx(theirs.pvalue, abs=0.012)


def test_no_difference_at_all_has_p_one_in_both_tests() -> None:
    assert np.array(paired_tests(np.zeros((9, 2)), permutations=50, seed=0)).tolist() == [[1.0, 1.0]] * 2


def test_the_same_difference_everywhere_and_a_single_query_give_finite_p_values() -> None:
    assert np.isfinite(paired_tests(np.full((9, 1), 0.1), permutations=50, seed=0)).all()
    assert paired_tests(np.array([[0.4]]), permutations=50, seed=0)[0].tolist() == [1.0]


def test_many_queries_are_sampled_in_blocks_to_the_same_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    differences = np.random.default_rng(1).normal(0.1, 1.0, size=(40, 3))

    def figures() -> list[np.ndarray]:
        p = randomization_test(differences, permutations=99, seed=3)
        return [p, *Bootstrap(99, 0.95, 3).interval(differences)]

    whole = figures()
    monkeypatch.setattr("experiments.evaluate.significance._WEIGHTS", 7 * len(differences))
    for once, again in zip(whole, figures(), strict=True):
        np.testing.assert_allclose(again, once, rtol=1e-12)


def test_wins_losses_and_ties_ignore_rounding_errors() -> None:
    assert wins_losses_ties(np.array([0.2, -0.1, 1e-13, 0.0, -1e-12, 0.5])) == (2, 1, 3)


def test_the_front_is_what_nothing_dominates() -> None:
    front = pareto_front([1, 2, 2, 3, 4], [0.5, 0.7, 0.6, 0.7, 0.9])
    assert front.tolist() == [True, True, False, False, True]
    assert pareto_front([1, 1], [0.5, 0.5]).tolist() == [True, True]


def test_the_area_is_the_mean_height() -> None:
    x, y = np.array([0.0, 10.0, 20.0]), np.array([0.0, 1.0, 1.0])
    assert area(x, y, 0, 20, stepwise=False) == pytest.approx(0.75)
    assert area(x, y, 5, 20, stepwise=False) == pytest.approx((5 * 0.75 + 10) / 15)
    assert area(x, y, 0, 20, stepwise=True) == pytest.approx(0.5)
    assert area(x, y, 5, 20, stepwise=True) == pytest.approx(10 / 15)


def test_the_cost_of_a_quality_is_read_between_two_budgets() -> None:
    costs, quality = np.array([5.0, 10.0, 20.0]), np.array([0.4, 0.5, 0.7])
    assert cost_to_reach(costs, quality, 0.6) == (pytest.approx(15.0), False)
    assert cost_to_reach(costs, quality, 0.6, stepwise=True) == (20.0, False)
    assert cost_to_reach(costs, quality, 0.3) == (5.0, True)
    assert cost_to_reach(costs, quality, 0.8) == (None, False)
