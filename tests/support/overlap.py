"""A model that needs none: the share of the query's words that a text holds."""

from collections.abc import Sequence
from typing import Any

from ragtune import BudgetedReranker
from ragtune.facade.ranking import Ranking

QUERY = "why does bread rise"
TEXTS = [
    "bread needs yeast",
    "tea is hot",
    "why does bread rise",
    "yeast makes bread rise",
    "honey from bees",
    "rise of empires",
    "bread",
    "dough and why it does rise",
]


def overlap(query: str, texts: Sequence[str]) -> list[float]:
    words = set(query.split())
    return [len(words & set(text.split())) / max(1, len(words)) for text in texts]


class Spy:
    """:func:`overlap`, and the texts of every call."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def __call__(self, query: str, texts: Sequence[str]) -> list[float]:
        self.calls.append(list(texts))
        return overlap(query, texts)


def make(model: Any = overlap, **options: Any) -> BudgetedReranker:
    limits = {"docs", "calls", "usd", "ms", "tokens"} & set(options)
    return BudgetedReranker(model, **{"batch_size": 2, **({} if limits else {"docs": 4}), **options})


def seen(ranking: Ranking) -> list[tuple[int, float, float | None]]:
    return [(document.index, document.score, document.reranker_score) for document in ranking]


def check(ranking: Ranking, count: int) -> None:
    assert sorted(document.index for document in ranking) == list(range(count))
    assert all(0.0 <= document.score <= 1.0 for document in ranking)
    for document in ranking:
        assert document.estimated is not document.reranked
        assert document.estimated or document.score == document.reranker_score
