"""Substring search over documents in memory."""

from __future__ import annotations

from collections.abc import Sequence

from ragtune.core.interfaces import BaseRetriever
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import ScoredDocument
from ragtune.data.corpus import Corpus


class InMemoryRetriever(BaseRetriever):
    """Documents that contain the query as a substring, case ignored; all of them if none does (rule A5).

    It is meant for tests and for pools that were ranked elsewhere. Documents with scores of their own keep them and
    are ordered by them. Where nothing but the given order is known (a corpus, or documents that all score 0), the
    order is kept and the score is the reciprocal of the 1-based position among the matches.
    """

    def __init__(self, documents: Corpus | Sequence[ScoredDocument]) -> None:
        if isinstance(documents, Corpus):
            self._documents = [documents.scored(doc_id, 0.0) for doc_id in documents.doc_ids]
        else:
            first: dict[str, ScoredDocument] = {}
            for doc in documents:
                first.setdefault(doc.id, doc)
            self._documents = list(first.values())
        self._is_scored = any(doc.score for doc in self._documents)
        if self._is_scored:
            self._documents.sort(key=lambda doc: (-doc.score, doc.id))

    def retrieve(self, context: RAGtuneContext, top_k: int) -> list[ScoredDocument]:
        needle = context.query.lower()
        matches = [doc for doc in self._documents if needle in doc.content.lower()] or self._documents
        if self._is_scored:
            return matches[:top_k]
        return [_at(doc, 1.0 / rank) for rank, doc in enumerate(matches[:top_k], start=1)]


def _at(doc: ScoredDocument, score: float) -> ScoredDocument:
    return doc.model_copy(update={"score": score, "original_score": score})
