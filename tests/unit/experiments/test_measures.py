"""Measures against ir-measures called directly, and against arithmetic."""

from __future__ import annotations

import subprocess
import sys

import ir_measures
import numpy as np
import pytest

from experiments.evaluate.measures import Measures, strictly_decreasing
from ragtune.core.errors import ConfigError

QRELS = {"q1": {"a": 3, "b": 1, "c": 0, "x": 2}, "q2": {"a": 1}, "q3": {"z": 2}}
NAMES = ["nDCG@10", "RR@10", "AP", "R@100"]


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


def test_query_ids_that_are_no_numbers_are_measured_by_every_tool() -> None:
    names = ["ERR@10", "nDCG(dcg='exp-log2')@10"]
    rankings = {"1": ["c", "a"], "2": ["x", "y"], "3": ["a"], "4": []}
    qrels = {"1": {"a": 3, "b": 1}, "2": {"z": 1}, "3": {"a": 0}, "4": {"a": 1}}
    by_number = Measures(names, qrels).of_topics(rankings, {q: q for q in qrels})
    named = {f"PLAIN-{q}": judged for q, judged in qrels.items()}
    by_name = Measures(names, named).of_topics({f"PLAIN-{q}": r for q, r in rankings.items()}, {q: q for q in named})
    assert by_name.tolist() == by_number.tolist()
    assert by_name[0].min() > 0
    assert by_name[1:].tolist() == [[0.0, 0.0]] * 3  # nothing found, nothing relevant, nothing ranked


def test_a_value_that_a_tool_did_not_return_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    measures = Measures(["ERR@10"], QRELS)
    evaluator = ir_measures.providers.gdeval_provider.GdevalEvaluator
    monkeypatch.setattr(evaluator, "_iter_calc", lambda self, run: iter(()))
    with pytest.raises(ConfigError, match=r"measure 'ERR@10': its tool returned no value for query 'q2'"):
        measures.of_topics({"q2": ["a"]}, {"q2": "q2"})


@pytest.mark.parametrize("grade", [-1, -2])
def test_negative_grades_count_as_zero_in_every_measure(grade: int) -> None:
    # In a process of its own: without the clip, trec_eval ends it with SIGSEGV.
    code = f"""
from experiments.evaluate.measures import Measures
names = ["nDCG@10", "Bpref", "Rprec", "infAP", "SetF", "ERR@10"]
rankings = {{str(i): [f"d{{j}}" for j in range(20)] for i in range(50)}}
def values(grade):
    qrels = {{q: {{f"d{{j}}": grade for j in range(int(q) % 20 + 1)}} for q in rankings}}
    qrels["0"]["d3"] = 1
    return Measures(names, qrels).of_topics(rankings, {{q: q for q in rankings}}).tolist()
assert values({grade}) == values(0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
