"""Values of NumPy and pandas wherever a number, a truth value or a list is allowed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from experiments.config.paths import CONF
from ragtune import BudgetedReranker
from ragtune.core.errors import InputError
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
        ({"docs": 3}, {"docs": np.int64(3)}),
        ({"docs": 3}, {"docs": np.array(3)}),
        ({"calls": 2}, {"calls": np.uint8(2)}),
        ({"tokens": 90}, {"tokens": np.int32(90)}),
        ({"docs": 3, "batch_size": 2}, {"docs": 3, "batch_size": np.int16(2)}),
        ({"docs": 3, "trust": 0.5}, {"docs": 3, "trust": np.float32(0.5)}),
        ({"docs": 3, "policy": "settled"}, {"docs": 3, "policy": np.str_("settled")}),
    ],
)
def test_numpy_scalars_of_the_constructor_are_the_numbers_that_they_are(plain: Any, given: Any) -> None:
    one, other = (BudgetedReranker(words, **options).rank("green tea", TEXTS) for options in (plain, given))
    assert one.documents == other.documents


@pytest.mark.parametrize(
    ("plain", "given"),
    [
        ({"top_k": 2}, {"top_k": np.int64(2)}),
        ({"budget": {"docs": 1}}, {"budget": {"docs": np.uint16(1)}}),
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
        ({"documents": TEXTS}, {"documents": pd.Series(TEXTS, dtype="string")}),
        ({"documents": TEXTS}, {"documents": (text for text in TEXTS)}),
    ],
)
def test_arrays_and_series_are_lists_by_position(plain: Any, given: Any) -> None:
    assert ranked(**given).documents == ranked(**plain).documents


def test_records_of_a_frame_may_lack_a_title() -> None:
    frame = pd.DataFrame({"text": TEXTS, "title": [None, "x", np.nan, pd.NA]})
    assert [d.index for d in ranked(frame.to_dict("records"))] == [d.index for d in ranked(TEXTS)]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"documents": pd.DataFrame({"text": TEXTS})}, "DataFrame.*to_dict"),
        ({"documents": set(TEXTS)}, "documents of type set"),
        ({"documents": pd.Series([*TEXTS[:3], None])}, "document 3 is None"),
        ({"top_k": np.float64(2.0)}, "top_k=np.float64"),
        ({"top_k": np.True_}, "top_k=np.True_"),
        ({"top_k": pd.NA}, "top_k=<NA>"),
    ],
)
def test_what_is_no_number_and_no_list_is_refused(given: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ranked(**given)


def test_jobs_of_an_array_are_ranked_as_those_of_a_list() -> None:
    reranker = BudgetedReranker(words, docs=3)
    given = pd.Series([("green tea", np.array(TEXTS), np.array(SCORES))])
    assert (
        reranker.rank_many(given, width=np.int64(2))[0].documents
        == reranker.rank_many([("green tea", TEXTS, SCORES)])[0].documents
    )


def test_a_reranking_function_may_return_a_series() -> None:
    own = reranker_for(lambda query, texts: pd.Series(words(query, texts)), {})
    assert BudgetedReranker(own, docs=3, batch_size=1).rank("green tea", TEXTS).documents == ranked().documents


_GROUPS = ("acquisition", "assembler", "estimator", "fusion", "scheduler")
_KINDS: dict[type, Callable[[Any], Any]] = {int: np.int64, float: np.float32, bool: np.bool_, str: np.str_}


def _components() -> list[tuple[str, dict[str, Any]]]:
    """The components that need nothing but numbers, truth values and texts, with the options of their files."""
    found = []
    for file in sorted(file for group in _GROUPS for file in (CONF / group).glob("*.yaml")):
        node = yaml.safe_load(file.read_text(encoding="utf-8"))
        options = {name: value for name, value in node.items() if not name.startswith("_")}
        is_plain = all(type(value) in (*_KINDS, type(None)) for value in options.values())
        if is_plain and not node.keys() & {"_partial_", "defaults"} and "${" not in str(options):
            found.append((node["_target_"], options))
    return found


@pytest.mark.parametrize(("target", "options"), _components())
def test_components_take_numpy_scalars(target: str, options: dict[str, Any]) -> None:
    from hydra.utils import get_class

    assert get_class(target)(**{k: None if v is None else _KINDS[type(v)](v) for k, v in options.items()})
