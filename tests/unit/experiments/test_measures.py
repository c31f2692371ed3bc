"""Measures against ir-measures called directly, and against arithmetic."""

from __future__ import annotations

import math

import ir_measures
import numpy as np
import pytest

from experiments.evaluate.measures import Measures, strictly_decreasing
from ragtune.core.errors import ConfigError

QRELS = {"q1": {"a": 3, "b": 1, "c": 0, "x": 2}, "q2": {"a": 1}, "q3": {"z": 2}}
NAMES = ["nDCG@10", "RR@10", "AP", "R@100"]


def test_ndcg_is_what_the_definition_says() -> None:
    got = Measures(["nDCG@3"], QRELS).of_topics({"q1": ["b", "c", "a"]}, {"q1": "q1"})
    dcg = 1 / math.log2(2) + 0 / math.log2(3) + 3 / math.log2(4)
    ideal = 3 / math.log2(2) + 2 / math.log2(3) + 1 / math.log2(4)
    assert got[0, 0] == pytest.approx(dcg / ideal, abs=1e-12)


def test_values_are_those_of_ir_measures_to_the_last_bit() -> None:
    names = [*NAMES, "nDCG", "RR", "AP@5", "AP(rel=2)", "P(rel=2)@3", "R(rel=3)@40", "Success@5", "Rprec"]
    rng = np.random.default_rng(7)
    drawn = {f"q{i}": rng.permutation(200)[: rng.integers(1, 120)] for i in range(40)}
    qrels = {query: {f"d{j}": int(rng.integers(-1, 5)) for j in found} for query, found in drawn.items()}
    qrels |= {"nothing relevant": {"d1": 0}, "nothing found": {"d1": 1}}
    rankings = {
        q: [f"d{j}" for j in rng.permutation(200)[: rng.integers(1, 150)]] for q in [*drawn, "nothing relevant"]
    }
    got = Measures(names, qrels).of_topics(rankings, {q: q for q in qrels})
    measures = [ir_measures.parse_measure(name) for name in names]
    run = {query: strictly_decreasing(ranking) for query, ranking in rankings.items()}
    values = {(m.query_id, str(m.measure)): m.value for m in ir_measures.iter_calc(measures, qrels, run)}
    expected = [[values.get((query, str(measure)), 0.0) for measure in measures] for query in rankings]
    assert got.tolist() == [*expected, [0.0] * len(names)]
    assert got.flags.c_contiguous  # else means over topics add up in another order


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
