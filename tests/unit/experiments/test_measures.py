"""Measures against ir-measures called directly, and against arithmetic."""

from __future__ import annotations

import math

import ir_measures
import pytest
from ir_measures import AP, RR, R, nDCG

from experiments.evaluate.measures import Measures, strictly_decreasing
from ragtune.core.errors import ConfigError

QRELS = {"q1": {"a": 3, "b": 1, "c": 0, "x": 2}, "q2": {"a": 1}, "q3": {"z": 2}}
NAMES = ["nDCG@10", "RR@10", "AP", "R@100"]


def test_ndcg_is_what_the_definition_says() -> None:
    got = Measures(["nDCG@3"], QRELS).of_topics({"q1": ["b", "c", "a"]}, {"q1": "q1"})
    dcg = 1 / math.log2(2) + 0 / math.log2(3) + 3 / math.log2(4)
    ideal = 3 / math.log2(2) + 2 / math.log2(3) + 1 / math.log2(4)
    assert got[0, 0] == pytest.approx(dcg / ideal, abs=1e-12)


def test_values_are_those_of_ir_measures_called_directly() -> None:
    rankings = {"q1": ["c", "b", "d", "a"], "q2": ["b", "a"], "q3": ["a", "b"]}
    got = Measures(NAMES, QRELS).of_topics(rankings, {q: q for q in QRELS})
    run = {q: {d: float(-i) for i, d in enumerate(ranking)} for q, ranking in rankings.items()}
    measures = [nDCG @ 10, RR @ 10, AP, R @ 100]
    expected = {(m.query_id, m.measure): m.value for m in ir_measures.iter_calc(measures, QRELS, run)}
    assert got.ravel().tolist() == pytest.approx([expected[q, m] for q in QRELS for m in measures])


def test_a_judged_query_that_retrieved_nothing_scores_zero() -> None:
    got = Measures(NAMES, QRELS).of_topics({"q1": ["a"], "q2": []}, {q: q for q in QRELS})
    assert got.shape == (3, 4)
    assert got[0].min() > 0
    assert got[1:].tolist() == [[0.0] * 4] * 2


def test_nothing_retrieved_at_all_scores_zero() -> None:
    assert Measures(NAMES, QRELS).of_topics({}, {"q1": "q1"}).tolist() == [[0.0] * 4]


def test_several_topics_may_be_states_of_one_query() -> None:
    got = Measures(["RR@10"], QRELS).of_topics({"0:q1": ["c", "a"], "1:q1": ["a", "c"]}, {"0:q1": "q1", "1:q1": "q1"})
    assert got[:, 0].tolist() == [0.5, 1.0]


def test_the_order_given_is_the_order_measured() -> None:
    # Equal scores would be reordered by document id, descending: z before a.
    assert Measures(["RR@10"], QRELS).of_topics({"q2": ["a", "z"]}, {"q2": "q2"})[0, 0] == 1.0
    scores = list(strictly_decreasing(["c", "a", "b"]).values())
    assert scores == sorted(set(scores), reverse=True)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ([], "empty"),
        (["nDCG@10", "Niceness"], "Niceness"),
        (["nDCG@"], "nDCG@"),
        (["AP", "AP"], "named twice"),
        (["__import__('os')"], "measures="),
        (["nDCG@0"], "measure 'nDCG@0': cutoff=0: allowed is a whole number >= 1"),
        (["AP", "P(rel=2)@0"], "measure 'P(rel=2)@0': cutoff=0"),
        (["AP@0"], "cutoff=0"),
        (["RR@0"], "cutoff=0"),
        (["P(rel=0)@5"], "measure 'P(rel=0)@5': rel=0: allowed is a whole number >= 1"),
        (["nDCG@2.5"], "cutoff=2.5"),
        (["AP", "alpha_nDCG@10"], "'alpha_nDCG@10' cannot be computed here: Unsupported measures"),
        (["SDCG@10"], "'SDCG@10' cannot be computed here: "),
    ],
)
def test_a_bad_list_of_measures_is_refused(names: list[str], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Measures(names, QRELS)
    assert said in str(refused.value)
