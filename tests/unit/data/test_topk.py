from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ragtune.data.corpus import best_positions, id_ranks

scored = st.dictionaries(st.text("abc", min_size=1, max_size=4), st.sampled_from([0.0, 0.5, 1.0, -1.0]))


@given(scored, st.integers(0, 12))
def test_is_a_full_sort_cut_off(scores: dict[str, float], k: int) -> None:
    ids = list(scores)
    best = best_positions(np.array(list(scores.values())), id_ranks(ids), k)
    assert [ids[i] for i in best] == sorted(ids, key=lambda i: (-scores[i], i))[:k]


@given(scored)
def test_leaves_out_what_does_not_exceed_the_floor(scores: dict[str, float]) -> None:
    ids = list(scores)
    best = best_positions(np.array(list(scores.values())), id_ranks(ids), 100, above=0.0)
    assert {ids[i] for i in best} == {i for i in ids if scores[i] > 0}
