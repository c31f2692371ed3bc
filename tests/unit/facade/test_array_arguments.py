"""Values of NumPy and pandas wherever a number, a truth value or a list is allowed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from ragtune import BudgetedReranker
from ragtune.facade.models import reranker_for
from ragtune.facade.ranking import Ranking

TEXTS = ["bread is baked", "green tea", "tea leaves", "ships have sails"]
SCORES = [4.0, 1.0, 3.0, 2.0]


def words(query: str, texts: Any) -> list[float]:
    return [len(set(query.split()) & set(text.split())) / 3 for text in texts]


def ranked(documents: Any = TEXTS, scores: Any = None, **further: Any) -> Ranking:
    return BudgetedReranker(words, docs=3, batch_size=1).rank("green tea", documents, scores, **further)


@pytest.mark.parametrize(
    ("plain", "given"),
    [
        ({"top_k": 2}, {"top_k": np.int64(2)}),
        ({"scores": SCORES}, {"scores": np.array(SCORES, dtype=np.float32)}),
        ({"scores": SCORES}, {"scores": pd.Series(SCORES, index=[3, 2, 1, 0])}),
        ({"scores": [4, None, 3, 2]}, {"scores": pd.Series([4, None, 3, 2], dtype="Int64")}),
        ({"scores": [4, None, 3, 2]}, {"scores": [np.int64(4), pd.NA, 3, 2]}),
        ({"scores": {"a": SCORES, "b": SCORES[::-1]}}, {"scores": pd.DataFrame({"a": SCORES, "b": SCORES[::-1]})}),
        ({"signals": {"clicks": [1, None, 2, 3]}}, {"signals": {"clicks": pd.Series([1, None, 2, 3])}}),
        ({"signals": {"clicks": SCORES}}, {"signals": pd.DataFrame({"clicks": SCORES})}),
        ({"vectors": np.eye(4).tolist()}, {"vectors": pd.DataFrame(np.eye(4))}),
        ({"documents": TEXTS}, {"documents": np.array(TEXTS)}),
        ({"documents": TEXTS}, {"documents": pd.Series(TEXTS, index=[3, 2, 1, 0])}),
        ({"documents": TEXTS}, {"documents": (text for text in TEXTS)}),
    ],
)
def test_arrays_and_series_are_lists_by_position(plain: Any, given: Any) -> None:
    assert ranked(**given).documents == ranked(**plain).documents


def test_records_of_a_frame_may_lack_a_title() -> None:
    frame = pd.DataFrame({"text": TEXTS, "title": [None, "x", np.nan, pd.NA]})
    assert [d.index for d in ranked(frame.to_dict("records"))] == [d.index for d in ranked(TEXTS)]


def test_a_reranking_function_may_return_a_series() -> None:
    own = reranker_for(lambda query, texts: pd.Series(words(query, texts)), {})
    assert BudgetedReranker(own, docs=3, batch_size=1).rank("green tea", TEXTS).documents == ranked().documents
