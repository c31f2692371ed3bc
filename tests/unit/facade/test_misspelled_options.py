"""Options of a reranker that nobody has are refused with the one that may have been meant, and scores one by one."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ragtune import BudgetedReranker
from ragtune.core.errors import ConfigError


@pytest.mark.parametrize(
    ("options", "meant"),
    [({"doc": 3}, "docs"), ({"docs": 3, "polcy": "gar"}, "policy"), ({"docs": 3, "batchsize": 2}, "batch_size")],
)
def test_an_unknown_option_is_named_with_what_may_have_been_meant(options: dict[str, Any], meant: str) -> None:
    (unknown,) = options.keys() - {"docs"}
    with pytest.raises(ConfigError, match=f"unknown option '{unknown}'.*did you mean {meant}\\?"):
        BudgetedReranker(lambda query, texts: [1.0] * len(texts), **options)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, None])
def test_a_score_that_is_no_number_costs_its_document_and_no_other(bad: Any) -> None:
    def scores(query: str, texts: list[str]) -> list[Any]:
        return [bad if text == "two" else 0.1 for text in texts]

    ranking = BudgetedReranker(scores, docs=3, batch_size=3).rank("query", ["one", "two", "three"], scores=[3, 2, 1])
    assert {one.index: one.reranked for one in ranking} == {0: True, 1: False, 2: True}
