"""Measures against ir-measures called directly and against arithmetic, of rankings as positions and of records."""

import json
import math
import subprocess
import sys
from types import SimpleNamespace

import ir_measures
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.evaluate.curves import at_depths
from experiments.evaluate.measures import Measures, strictly_decreasing
from experiments.evaluate.rankings import States
from experiments.evaluate.record import UNITS, BaselineReplay, QueryRecord, ties_of
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


GRADES = {"q": {f"d{i}": i % 3 for i in range(0, 300, 7)}}
MEASURES = Measures(["nDCG@10", "AP", "RR@10", "R@100", "P@5"], GRADES)


@given(st.lists(st.lists(st.integers(0, 299), unique=True, max_size=30), max_size=6))
def test_states_of_any_lengths_are_measured_as_each_ranking_by_itself(orders: list[list[int]]) -> None:
    doc_ids = [f"d{i}" for i in range(300)]
    states = States("q", doc_ids, orders)
    alone = [MEASURES.of_topics({"q": ranking}, {"q": "q"})[0] for ranking in states.rankings()]
    np.testing.assert_array_equal(MEASURES.of_states([states]), np.reshape(alone, (len(orders), 5)))


@given(st.permutations(range(12)), st.permutations(range(12)), st.integers(0, 12))
def test_fixed_depth_at_each_depth_is_what_a_sort_of_each_would_give(
    first: list[int], by_score: list[int], m: int
) -> None:
    final = [i for i in by_score if i not in first[m:]]  # what is missing was put out by a failed call
    found = at_depths(BaselineReplay("q", [], np.array(first), np.array(final, dtype=int), 12), np.arange(13))
    best = [*final, *(i for i in first if i not in final)]
    expected = [
        [*(i for i in best if i in first[:depth]), *(i for i in first if i not in first[:depth])] for depth in range(13)
    ]
    assert found.tolist() == expected


@pytest.mark.parametrize("names", [["AP", "nDCG@10"], ["Compat(p=0.9)", "AP"]])
def test_the_headline_alone_is_the_first_of_all_measures(names: list[str]) -> None:
    measures = Measures(names, GRADES)
    states = [States("q", [f"d{i}" for i in range(9)], [[3, 0, 7], [0, 1, 2]]), States.of("q", ["d7", "d5"])]
    assert measures.headline_of(states).tolist() == measures.of_states(states)[:, 0].tolist()


def record_of(fakes: SimpleNamespace, **parts: object) -> tuple[object, QueryRecord]:
    output = fakes.controller(documents=fakes.docs(12), **parts).run("query", query_id="q7")
    return output, QueryRecord.of(output)


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
