"""Rankings of one query's documents as positions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.evaluate.measures import Measures
from experiments.evaluate.rankings import States, after_each, small

QRELS = {"q": {f"d{i}": i % 3 for i in range(0, 300, 7)}}
MEASURES = Measures(["nDCG@10", "AP", "RR@10", "R@100", "P@5"], QRELS)


@given(st.lists(st.lists(st.integers(0, 299), unique=True, max_size=30), max_size=6))
def test_states_of_any_lengths_are_measured_as_each_ranking_by_itself(orders: list[list[int]]) -> None:
    doc_ids = [f"d{i}" for i in range(300)]
    states = States("q", doc_ids, orders)
    alone = [MEASURES.of_topics({"q": ranking}, {"q": "q"})[0] for ranking in states.rankings()]
    np.testing.assert_array_equal(MEASURES.of_states([states]), np.reshape(alone, (len(orders), 5)))


@pytest.mark.parametrize("positions", [[], [0], [299], [70_000, 3], [[1, 256], [256, 1]]])
def test_positions_in_few_bytes_are_the_same_positions(positions: list[int]) -> None:
    assert small(positions, int(np.max(positions, initial=0)) + 1).tolist() == positions


@given(st.permutations(range(12)), st.integers(0, 12), st.data())
def test_rankings_after_each_batch_are_what_a_sort_of_each_would_give(
    sent: list[int], m: int, data: st.DataObject
) -> None:
    depths = data.draw(st.lists(st.integers(0, m), min_size=1))
    best, rest = data.draw(st.permutations(sent[:m])), data.draw(st.permutations(range(12)))
    found = after_each(depths, *(np.array(each, dtype=int) for each in (sent[:m], best, rest)))
    expected = [sorted(range(12), key=lambda i, d=d: _key(i, sent[:d], best, rest)) for d in depths]
    assert found.tolist() == expected


def _key(document: int, sent: list[int], best: list[int], rest: list[int]) -> tuple[bool, int]:
    return (False, best.index(document)) if document in sent else (True, rest.index(document))


@pytest.mark.parametrize("names", [["AP", "nDCG@10"], ["Compat(p=0.9)", "AP"]])
def test_the_headline_alone_is_the_first_of_all_measures(names: list[str]) -> None:
    measures = Measures(names, QRELS)
    states = [States("q", [f"d{i}" for i in range(9)], [[3, 0, 7], [0, 1, 2]]), States.of("q", ["d7", "d5"])]
    assert measures.headline_of(states).tolist() == measures.of_states(states)[:, 0].tolist()
