"""Rankings of one query's documents as positions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.evaluate.measures import Measures
from experiments.evaluate.states import States, small

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
    assert small(positions).tolist() == positions
