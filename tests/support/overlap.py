"""A model that needs none: the share of the query's words that a text holds."""

from __future__ import annotations

from collections.abc import Sequence

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
