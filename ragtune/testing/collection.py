"""A small collection, and requests without limits, for the suites that need no adversary."""

from __future__ import annotations

from functools import cache
from typing import Any

from ragtune.core.pool.items import PoolItem
from ragtune.core.request.budget import CostBudget
from ragtune.core.request.context import RAGtuneContext
from ragtune.data.corpus import Corpus, Document

TEXTS = {
    "heart-1": ("Heart", "The heart pumps blood through the body. Blood pressure rises when arteries narrow."),
    "heart-2": ("", "A diet low in salt lowers blood pressure and protects the heart."),
    "heart-3": ("Blood pressure", "High blood pressure strains the heart and the vessels; exercise lowers it."),
    "ship-1": ("Knots", "Sailors tie a bowline when a rope must hold a ship and still come loose."),
    "ship-2": ("", "The ship lay at anchor while the crew mended sails and ropes."),
    "bread-1": ("", "Knead the loaves and let them rise before baking the bread."),
    "bread-2": ("", "Knead the loaves and let them rise before baking the bread."),
    "bread-3": ("Honey bread", "Honey in bread keeps the crumb moist; knead the dough with warm water."),
    "honey-1": ("", "Honey, tea and lemon soothe a sore throat. Honey never spoils."),
    "tea-1": ("Café", "At the café they pour tea (茶) from a height, without honey."),
    "star-1": ("", "A star shines because hydrogen fuses to helium under its own pressure."),
    "blank-1": ("", ""),
}
"""Title and text by document id: four documents about one thing each, two alike, one without text."""


@cache
def small_corpus() -> Corpus:
    """The twelve documents of :data:`TEXTS`; always the same object."""
    return Corpus(Document(id=doc_id, title=title, text=text) for doc_id, (title, text) in TEXTS.items())


def small_pool_items() -> list[PoolItem]:
    """The small collection as candidates, in its own order, with falling first-stage scores."""
    corpus = small_corpus()
    docs = [corpus.scored(doc_id, 1.0 / (rank + 1)) for rank, doc_id in enumerate(corpus.doc_ids)]
    return [PoolItem.from_document(doc, rank, {"original": doc.score}) for rank, doc in enumerate(docs)]


def make_context(query: str = "query", **fields: Any) -> RAGtuneContext:
    """The context of a request with the id ``q1`` and no limits.

    Args:
        query: text of the request.
        fields: of :class:`~ragtune.core.request.context.RAGtuneContext`, in place of the usual ones.
    """
    defaults: dict[str, Any] = {"query_id": "q1", "tracker": CostBudget.unlimited().create_tracker()}
    return RAGtuneContext(query=query, **(defaults | fields))
