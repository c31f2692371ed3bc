"""The rankings of all steps at once are those of each step."""

from __future__ import annotations

import numpy as np
import pytest

from ragtune.core.output import HistoryStep, rankings_of
from ragtune.core.pool.columns import CANDIDATE, DROPPED, RERANKED, PoolColumns
from ragtune.core.pool.ordering import Ordering
from ragtune.core.types import CostObject


@pytest.mark.parametrize("ordering", list(Ordering))
@pytest.mark.parametrize("lost", [CANDIDATE, DROPPED])
def test_a_step_is_ranked_as_it_is_alone_also_where_a_score_was_lost(ordering: Ordering, lost: int) -> None:
    unknown, base = np.full(4, np.nan), np.array([0.9, 0.8, 0.7, 0.6])
    scores = np.array([np.nan, 0.2, np.nan, 0.9])
    states = np.array([lost, RERANKED, CANDIDATE, RERANKED], dtype=np.int8)
    before = PoolColumns(np.zeros(4, dtype=np.int8), unknown, base / 2, base, unknown)
    steps = [
        HistoryStep(CostObject(), ("a", "b", "c", "d"), ordering, columns)
        for columns in (before, PoolColumns(states, scores, base / 2, base, unknown))
    ]
    assert [order.tolist() for order in rankings_of(steps)] == [step.keys.argsort().tolist() for step in steps]
