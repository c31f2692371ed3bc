"""Concatenation: the do-nothing fusion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ragtune.core.interfaces import BaseFusion
from ragtune.core.types import ScoredDocument


class ConcatFusion(BaseFusion):
    """One list after the other, in the order given, first occurrences kept (rule A5).

    The lists' own scores are not comparable, so the score is the reciprocal of the 1-based rank in the result, which
    says nothing but the order.
    """

    def fuse(self, lists: Mapping[str, Sequence[ScoredDocument]]) -> list[ScoredDocument]:
        first: dict[str, ScoredDocument] = {}
        sources: dict[str, dict[str, float]] = {}
        for name, documents in lists.items():
            for doc in documents:
                first.setdefault(doc.id, doc)
                sources.setdefault(doc.id, {}).setdefault(name, doc.score)
        return [
            doc.model_copy(update={"score": 1.0 / rank, "fusion_score": 1.0 / rank, "sources": sources[doc.id]})
            for rank, doc in enumerate(first.values(), start=1)
        ]
