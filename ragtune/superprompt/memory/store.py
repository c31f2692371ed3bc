"""Long-term memory in a canonical store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from ragtune.canonical.store.base import BaseDatabase, BaseStore
from ragtune.canonical.types import Candidate, Filters
from ragtune.superprompt.memory.base import BaseMemory, Matches
from ragtune.superprompt.memory.documents import DocumentMemory
from ragtune.superprompt.super_prompt import ContextChunk


class StoreMemory(BaseMemory):
    """A collection of a canonical store and further documents, searched as one.

    The vector index gives one list a piece. A chunk that a full list lacks gets the list's lowest cosine, an upper
    bound where the index is exact. A further document replaces the collection's document of the same name.
    """

    def __init__(
        self, store: BaseStore, beside: Iterable[ContextChunk] = (), database: BaseDatabase | None = None
    ) -> None:
        self.store = store
        self.beside = DocumentMemory(beside, store.embedder)
        self._replaced = {chunk.doc_id for chunk in self.beside.chunks}
        self._database = database

    def search(self, pieces: Sequence[str], conversation: Sequence[ContextChunk], limit: int) -> Matches:
        vectors = self.store.embedder.embed(pieces)
        # A zero vector has no neighbours: the embedder knows nothing of that piece.
        lists = [self._nearest(vector, limit) if vector.any() else [] for vector in vectors]
        found: dict[tuple[str, int], Candidate] = {}
        for candidates in lists:
            for candidate in candidates:
                found.setdefault(candidate.key, candidate)
        cosines = np.zeros((len(found), len(pieces)))
        for column, candidates in enumerate(lists):
            known = {candidate.key: candidate.score for candidate in candidates}
            lowest = min(known.values(), default=0.0)
            cosines[:, column] = [known.get(key, lowest) for key in found]
        exact = self.beside.search(pieces, conversation, limit)
        return Matches([*exact.chunks, *self._chunks(found.values())], np.vstack([exact.cosines, cosines]))

    def close(self) -> None:
        if self._database is not None:
            self._database.close()

    def _nearest(self, vector: NDArray[np.float32], limit: int) -> list[Candidate]:
        nearest = self.store.vector_candidates(vector, limit, Filters())
        return [candidate for candidate in nearest if candidate.doc_id not in self._replaced]

    def _chunks(self, candidates: Iterable[Candidate]) -> list[ContextChunk]:
        """The candidates with their spans, which candidates do not have."""
        spans: dict[str, dict[int, tuple[int, int]]] = {}
        chunks = []
        for found in candidates:
            if found.doc_id not in spans:
                spans[found.doc_id] = {c.chunk_index: (c.start, c.end) for c in self.store.chunks(found.doc_id)}
            start, end = spans[found.doc_id].get(found.chunk_index, (0, 0))
            fields = found.model_dump(exclude={"score", "sources"})
            chunks.append(ContextChunk.model_validate({**fields, "start": start, "end": end, "source": "memory"}))
        return chunks
