"""Long-term memory in a canonical store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ragtune.canonical.store.base import BaseStore
from ragtune.canonical.types import Candidate, Filters
from ragtune.superprompt.chunks import ContextChunk
from ragtune.superprompt.memory.base import BaseMemory, Matches
from ragtune.superprompt.memory.documents import embedded_cosines


class StoreMemory(BaseMemory):
    """A collection of a canonical store, searched by its own vector index, one list a piece.

    A chunk that a full list lacks counts with the lowest cosine of that list, which its own cannot exceed (where the
    index is exact). Turns are embedded by the store's embedder and compared exactly.

    Args:
        store: the collection that is searched.
        filters: which chunks may be candidates.
    """

    def __init__(self, store: BaseStore, filters: Filters | None = None) -> None:
        self.store = store
        self.filters = filters or Filters()

    def search(self, pieces: Sequence[str], conversation: Sequence[ContextChunk], limit: int) -> Matches:
        vectors = self.store.embedder.embed(pieces)
        # A zero vector has no neighbours: a piece of which the embedder knows nothing is alike to nothing.
        lists = [self.store.vector_candidates(v, limit, self.filters) if v.any() else [] for v in vectors]
        found: dict[tuple[str, int], Candidate] = {}
        for candidates in lists:
            for candidate in candidates:
                found.setdefault(candidate.key, candidate)
        cosines = np.zeros((len(found), len(pieces)))
        for column, candidates in enumerate(lists):
            known = {candidate.key: candidate.score for candidate in candidates}
            lowest = min(known.values(), default=0.0)
            cosines[:, column] = [known.get(key, lowest) for key in found]
        turns = embedded_cosines(self.store.embedder, pieces, [item.snippet for item in conversation])
        return Matches([*conversation, *self._chunks(found.values())], np.vstack([turns, cosines]))

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
