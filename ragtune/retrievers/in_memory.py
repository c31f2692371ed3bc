"""Substring search over documents in memory."""

from __future__ import annotations

from collections.abc import Sequence

from ragtune.core.interfaces import BaseRetriever
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import ScoredDocument
from ragtune.data.corpus import Corpus


class InMemoryRetriever(BaseRetriever):
    """Documents that contain the query, case ignored, all if none does (rule A5); scores are 1 / place. For tests."""

    def __init__(self, documents: Corpus | Sequence[ScoredDocument]) -> None:
        if isinstance(documents, Corpus):
            documents = [documents.scored(doc_id, 0.0) for doc_id in documents.doc_ids]
        self._documents = documents

    def retrieve(self, context: RAGtuneContext, top_k: int) -> list[ScoredDocument]:
        needle = context.query.lower()
        matches = [doc for doc in self._documents if needle in doc.content.lower()] or self._documents
        scores = [1.0 / rank for rank in range(1, len(matches) + 1)][:top_k]
        return [
            doc.model_copy(update={"score": score, "original_score": score})
            for doc, score in zip(matches, scores, strict=False)
        ]
