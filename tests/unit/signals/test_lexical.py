"""How a document uses the words of the query."""

from __future__ import annotations

import math

import pytest

from ragtune.core.types import ScoredDocument
from ragtune.signals.lexical import LexicalSignal
from ragtune.testing import make_context


@pytest.mark.parametrize(
    ("query", "content", "value"),
    [
        ("honey bread", "honey bread", (1.0 + 1.0 + (1.0 + 1.0 / math.log2(3)) / 2) / 3),
        ("honey bread", "bread honey", (1.0 + 0.0 + (1.0 + 1.0 / math.log2(3)) / 2) / 3),
        ("honey bread", "tea, honey", (0.5 + 0.0 + 1.0 / math.log2(3) / 2) / 3),
        ("honey", "honey honey", 1.0),
        ("honey bread", "ships", 0.0),
    ],
)
def test_value_is_the_mean_of_coverage_bigrams_and_early_match(query: str, content: str, value: float) -> None:
    found = LexicalSignal().values(make_context(query), [ScoredDocument(id="d", content=content)])
    assert found["d"] == pytest.approx(value)
