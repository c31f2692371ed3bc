"""Long-term memory: the chunks of documents and collections, compared by their terms or vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, count
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragtune.canonical.chunking import HEADINGS
from ragtune.canonical.sources import chunk_file
from ragtune.canonical.types import SourceDocument
from ragtune.core.errors import DatasetError
from ragtune.core.interfaces import BaseEmbedder
from ragtune.llm.types import well_formed
from ragtune.superprompt.memory.inputs import Documents
from ragtune.superprompt.memory.sections import Sections, context
from ragtune.superprompt.options import Chunking
from ragtune.superprompt.reading.text import clean, content_words, terms
from ragtune.superprompt.super_prompt import ContextChunk

_SAMPLE = 20


@dataclass(frozen=True)
class Matches:
    """Chunks in any order, with their cosines to each piece of the query, shape (len(chunks), pieces), in [-1, 1]."""

    chunks: Sequence[ContextChunk]
    cosines: NDArray[np.float64]


class BaseMemory(ABC):
    """Long-term memory, searched together with the conversation as one index (rule E7)."""

    embedder: BaseEmbedder | None = None
    """What compares texts by their meaning; None where terms are compared."""

    @abstractmethod
    def search(self, pieces: Sequence[str], conversation: Sequence[ContextChunk], limit: int) -> Matches:
        """Return cosines of chunks of the memory and of all turns with every piece."""

    def term_weights(self, terms: Collection[str]) -> Mapping[str, float] | None:
        """Return a weight > 0 for each term, larger for rarer ones; None where the memory knows no terms."""
        return None

    def sample(self) -> Sequence[str]:
        """Return some texts that show the documents' language; empty where only a search shows any."""
        return ()


class TermIndex:
    """Term counts of texts, followed by those of a further index. They are weighted in a search."""

    def __init__(self, texts: Sequence[str], further: TermIndex | None = None) -> None:
        from scipy.sparse import csr_matrix, vstack

        known = {} if further is None else further.columns
        column_of = defaultdict(count(len(known)).__next__, known)
        found = [[column_of[term] for term in terms(text)] for text in texts]
        self.columns: dict[str, int] = dict(column_of)
        columns = np.fromiter(chain.from_iterable(found), dtype=np.int64)
        rows = np.repeat(np.arange(len(texts)), list(map(len, found)))
        width = max(1, len(self.columns))
        self.counts: Any = csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(len(texts), width))
        self.counts.data = 1.0 + np.log(self.counts.data)
        if further is not None:
            old = further.counts
            wider = csr_matrix((old.data, old.indices, old.indptr), shape=(old.shape[0], width))
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
        vectors: Callable[[], NDArray[np.float32]] | None = None,
    ) -> None:
        self.chunks = tuple(chunks)
        self.embedder = embedder
        self._make_vectors = vectors
        counts = Counter(item.id for item in self.chunks)
        if repeated := next((chunk_id for chunk_id, count in counts.items() if count > 1), None):
            raise DatasetError(f"memory holds chunk {repeated!r} twice: ids must be unique")

    @classmethod
    def from_texts(cls, texts: Documents, chunking: Chunking) -> DocumentMemory:
        """Chunk documents by name: ``.md`` and ``.markdown`` as Markdown, all others as text."""
        documents = (SourceDocument(doc_id=well_formed(name), content=clean(text)) for name, text in texts.items())
        pieces = (chunk_file(document, chunking.markdown, chunking.text) for document in documents)
        return cls(ContextChunk.of(piece, "memory") for piece in chain.from_iterable(pieces))

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

    def term_weights(self, terms: Collection[str]) -> Mapping[str, float]:
        """Return ``ln(1 + N / (1 + df))`` over the chunks."""
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
        if self._make_vectors is not None:
            return self._make_vectors()
        assert self.embedder is not None  # noqa: S101 -- for the type checker
        return self.embedder.embed([item.snippet for item in self.chunks])
