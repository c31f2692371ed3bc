"""Long-term memory: documents in this process, and collections of a canonical store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragtune.canonical import chunk, normalize
from ragtune.canonical.chunking import HEADINGS
from ragtune.canonical.sources import MARKDOWN
from ragtune.canonical.store.base import BaseDatabase, BaseStore
from ragtune.canonical.types import Candidate, Filters
from ragtune.core.errors import DatasetError
from ragtune.core.interfaces import BaseEmbedder
from ragtune.data.docvectors import DocumentVectors
from ragtune.data.text import terms
from ragtune.llm.types import well_formed
from ragtune.superprompt.memory.inputs import Documents
from ragtune.superprompt.memory.sections import Sections, context, path_at, underlined_headings
from ragtune.superprompt.options import Chunking
from ragtune.superprompt.reading.text import clean, content_words
from ragtune.superprompt.super_prompt import ContextChunk

_SAMPLE = 20


@dataclass(frozen=True)
class Matches:
    """Chunks in any order, with their cosines to each piece of the query, shape (len(chunks), pieces), in [-1, 1]."""

    chunks: Sequence[ContextChunk]
    cosines: NDArray[np.float64]


class BaseMemory(ABC):
    """Long-term memory, searched together with the conversation as one index (rule E7)."""

    @abstractmethod
    def search(self, pieces: Sequence[str], conversation: Sequence[ContextChunk], limit: int) -> Matches:
        """Return cosines of chunks of the memory and of all turns with every piece."""

    def term_weights(self, terms: Collection[str]) -> Mapping[str, float] | None:
        """Return a weight > 0 for each term, larger for rarer ones; None where the memory compares no terms."""
        return None

    def sample(self) -> Sequence[str]:
        """Return some texts that show the documents' language; empty where only a search shows any."""
        return ()

    def close(self) -> None:  # noqa: B027 - most hold no connections
        """Close connections."""


class TermIndex:
    """Term counts of texts, followed by those of a further index. They are weighted in a search."""

    def __init__(self, texts: Sequence[str], further: TermIndex | None = None) -> None:
        from scipy.sparse import csr_matrix, vstack

        self.columns: dict[str, int] = {} if further is None else dict(further.columns)
        rows, columns, values = [], [], []
        for row, text in enumerate(texts):
            for term, count in Counter(terms(text)).items():
                rows.append(row)
                columns.append(self.columns.setdefault(term, len(self.columns)))
                values.append(1.0 + np.log(count))
        width = max(1, len(self.columns))
        self.counts: Any = csr_matrix((values, (rows, columns)), shape=(len(texts), width), dtype=np.float64)
        if further is not None:
            known = further.counts
            wider = csr_matrix((known.data, known.indices, known.indptr), shape=(known.shape[0], width))
            self.counts = vstack([self.counts, wider], format="csr")
        self.frequencies = np.bincount(self.counts.indices, minlength=width)

    def frequency(self, term: str) -> int:
        column = self.columns.get(term)
        return 0 if column is None else int(self.frequencies[column])

    def idf(self, frequency: Any) -> Any:
        """Return ``ln((1 + N) / (1 + df)) + 1``, scikit-learn's smooth idf, of one document frequency or an array."""
        return np.log((1.0 + self.counts.shape[0]) / (1.0 + frequency)) + 1.0

    def cosines(self, pieces: Sequence[str]) -> NDArray[np.float64]:
        """TF-IDF cosines of all texts with every piece, shape (texts, pieces), in [0, 1]."""
        idf = self.idf(self.frequencies)
        counts = [Counter(term for _, term in content_words(piece)) for piece in pieces]
        query, known = self.rows(counts, idf, self.idf(0))
        norms = np.sqrt(self.counts.multiply(self.counts) @ (idf * idf))
        norms[norms == 0.0] = 1.0
        cosines: NDArray[np.float64] = (self.counts @ (query.multiply(idf).T)).toarray() * known / norms[:, None]
        return cosines

    def rows(self, counts: Sequence[Counter[str]], weights: Any, unknown: float) -> tuple[Any, list[float]]:
        """Unit rows over the known terms of texts, and the share of each text's length that these terms have."""
        from scipy.sparse import csr_matrix

        rows, columns, values, known = [], [], [], []
        for row, found in enumerate(counts):
            places = {term: self.columns[term] for term in found if term in self.columns}
            mine = {place: (1.0 + np.log(found[term])) * weights[place] for term, place in places.items()}
            length = sqrt(sum(weight * weight for weight in mine.values()))
            other = sum(((1.0 + np.log(n)) * unknown) ** 2 for term, n in found.items() if term not in places)
            known.append(length / sqrt(length**2 + other) if length else 0.0)
            if length:
                rows += [row] * len(mine)
                columns += list(mine)
                values += [weight / length for weight in mine.values()]
        return csr_matrix((values, (rows, columns)), shape=(len(counts), len(weights))), known


class DocumentMemory(BaseMemory):
    """Chunks of documents, searched exhaustively."""

    def __init__(
        self,
        chunks: Iterable[ContextChunk] = (),
        embedder: BaseEmbedder | None = None,
        vectors: DocumentVectors | None = None,
    ) -> None:
        self.chunks = tuple(chunks)
        self.embedder = embedder
        self._cached = vectors
        counts = Counter(item.id for item in self.chunks)
        if repeated := next((chunk_id for chunk_id, count in counts.items() if count > 1), None):
            raise DatasetError(f"memory holds chunk {repeated!r} twice: ids must be unique")

    @classmethod
    def from_texts(cls, texts: Documents, chunking: Chunking) -> DocumentMemory:
        """Chunk documents by name: ``.md`` and ``.markdown`` as Markdown, all others as text."""
        chunks = []
        for name, text in texts.items():
            policy = chunking.markdown if name.lower().endswith(MARKDOWN) else chunking.text
            normal = normalize(clean(text))
            pieces = [ContextChunk.of(piece, "memory") for piece in chunk(normal, policy, doc_id=well_formed(name))]
            if policy is chunking.text and (headings := underlined_headings(normal.text)):
                for piece in pieces:
                    piece.metadata[HEADINGS] = path_at(headings, piece.start)
            chunks += pieces
        return cls(chunks)

    def prepare(self) -> None:
        if self.embedder is None:
            _ = self.index
        else:
            self.embedder.prepare()
            _ = self._vectors

    def search(self, pieces: Sequence[str], conversation: Sequence[ContextChunk], limit: int) -> Matches:
        """Return cosines of every chunk and every turn; ``limit`` has no effect."""
        chunks = [*conversation, *self.chunks]
        turns = [item.snippet for item in conversation]
        if self.embedder is None:
            index = TermIndex(turns, self.index) if turns else self.index
            return Matches(chunks, index.cosines(pieces))
        queries = self.embedder.embed(pieces)
        parts = [self.embedder.embed(turns)] if turns else []
        if self.chunks:
            parts.append(self._vectors)
        cosines = [np.asarray(part @ queries.T, dtype=np.float64) for part in parts] or [np.zeros((0, len(pieces)))]
        return Matches(chunks, np.vstack(cosines).clip(-1.0, 1.0))

    def term_weights(self, terms: Collection[str]) -> Mapping[str, float] | None:
        """Return ``ln(1 + N / (1 + df))`` over the chunks; None with an embedder."""
        if self.embedder is not None:
            return None
        texts = len(self.chunks)
        return {term: float(np.log1p(texts / (1.0 + self.index.frequency(term)))) for term in sorted(terms)}

    def sample(self) -> Sequence[str]:
        return [item.snippet for item in self.chunks[:: 1 + len(self.chunks) // _SAMPLE]]

    @cached_property
    def index(self) -> TermIndex:
        return TermIndex([f"{context(item)} {item.snippet}".lstrip() for item in self.chunks])

    @cached_property
    def sections(self) -> Sections | None:
        """The sections of the chunks; None for passages, of which most stand under no heading."""
        titled = sum(bool(item.metadata.get(HEADINGS)) for item in self.chunks)
        if 2 * titled < len(self.chunks) or not self.chunks:
            return None
        return Sections(self.chunks, self.index)

    @cached_property
    def _vectors(self) -> NDArray[np.float32]:
        if self._cached is not None:
            return self._cached.matrix
        assert self.embedder is not None  # noqa: S101 -- for the type checker
        return self.embedder.embed([item.snippet for item in self.chunks])


class StoreMemory(BaseMemory):
    """A canonical store's collection and further documents, which replace those of the same name, searched as one."""

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
        spans: dict[str, dict[int, tuple[int, int]]] = {}
        chunks = []
        for found in candidates:
            if found.doc_id not in spans:
                spans[found.doc_id] = {c.chunk_index: (c.start, c.end) for c in self.store.chunks(found.doc_id)}
            start, end = spans[found.doc_id].get(found.chunk_index, (0, 0))
            fields = found.model_dump(exclude={"score", "sources"})
            chunks.append(ContextChunk.model_validate({**fields, "start": start, "end": end, "source": "memory"}))
        return chunks
