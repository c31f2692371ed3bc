"""Rankings of one query's documents as positions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.evaluate.curves import at_depths
from experiments.evaluate.measures import Measures
from experiments.evaluate.rankings import States
from experiments.evaluate.record import Ranked

QRELS = {"q": {f"d{i}": i % 3 for i in range(0, 300, 7)}}
MEASURES = Measures(["nDCG@10", "AP", "RR@10", "R@100", "P@5"], QRELS)


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
    found = at_depths(Ranked("q", [], np.array(first), np.array(final, dtype=int), 12), np.arange(13))
    best = [*final, *(i for i in first if i not in final)]
    expected = [
        [*(i for i in best if i in first[:depth]), *(i for i in first if i not in first[:depth])] for depth in range(13)
    ]
    assert found.tolist() == expected


@pytest.mark.parametrize("names", [["AP", "nDCG@10"], ["Compat(p=0.9)", "AP"]])
def test_the_headline_alone_is_the_first_of_all_measures(names: list[str]) -> None:
    measures = Measures(names, QRELS)
    states = [States("q", [f"d{i}" for i in range(9)], [[3, 0, 7], [0, 1, 2]]), States.of("q", ["d7", "d5"])]
    assert measures.headline_of(states).tolist() == measures.of_states(states)[:, 0].tolist()
