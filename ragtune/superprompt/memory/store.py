"""Long-term memory in a canonical store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from ragtune.canonical.store.base import BaseStore
from ragtune.canonical.types import Candidate, Filters
from ragtune.superprompt.chunks import ContextChunk
from ragtune.superprompt.memory.base import BaseMemory, Matches
from ragtune.superprompt.memory.documents import DocumentMemory


class StoreMemory(BaseMemory):
    """A collection of a canonical store, searched by its own vector index, one list a piece, and documents beside it.

    A chunk that a full list lacks counts with the lowest cosine of that list, which its own cannot exceed (where the
    index is exact). Turns and the documents beside are embedded by the store's embedder and compared exactly. Such a
    document takes the place of the collection's of the same name.

    Args:
        store: the collection that is searched.
        filters: which chunks of the collection may be candidates.
        beside: chunks that are searched together with it, whatever the filters say.

    Raises:
        DatasetError: if a chunk id comes twice beside the collection.
    """

    def __init__(self, store: BaseStore, filters: Filters | None = None, beside: Iterable[ContextChunk] = ()) -> None:
        self.store = store
        self.filters = filters or Filters()
        self.beside = DocumentMemory(beside, store.embedder)
        self._replaced = {chunk.doc_id for chunk in self.beside.chunks}

    def search(self, pieces: Sequence[str], conversation: Sequence[ContextChunk], limit: int) -> Matches:
        vectors = self.store.embedder.embed(pieces)
        # A zero vector has no neighbours: a piece of which the embedder knows nothing is alike to nothing.
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

    def _nearest(self, vector: NDArray[np.float32], limit: int) -> list[Candidate]:
        nearest = self.store.vector_candidates(vector, limit, self.filters)
        return [candidate for candidate in nearest if candidate.doc_id not in self._replaced]

    def _chunks(self, candidates: Iterable[Candidate]) -> list[ContextChunk]:
        """The candidates with their spans, which a candidate does not carry."""
        spans: dict[str, dict[int, tuple[int, int]]] = {}
        chunks = []
        for found in candidates:
            if found.doc_id not in spans:
                spans[found.doc_id] = {c.chunk_index: (c.start, c.end) for c in self.store.chunks(found.doc_id)}
            start, end = spans[found.doc_id].get(found.chunk_index, (0, 0))
            fields = found.model_dump(exclude={"score", "sources"})
            chunks.append(ContextChunk.model_validate({**fields, "start": start, "end": end, "source": "memory"}))
        return chunks
