"""Long-term memory held in this process."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ragtune.canonical import chunk, normalize
from ragtune.core.errors import DatasetError
from ragtune.core.interfaces import BaseEmbedder
from ragtune.data.corpus import Corpus
from ragtune.data.docvectors import DocumentVectors
from ragtune.llm.types import well_formed
from ragtune.superprompt.chunks import ContextChunk
from ragtune.superprompt.limits import Chunking
from ragtune.superprompt.memory.base import BaseMemory, Matches
from ragtune.superprompt.memory.folders import MARKDOWN, read_folder
from ragtune.superprompt.memory.terms import TermIndex, tfidf_cosines
from ragtune.superprompt.reading.cleaning import clean


class DocumentMemory(BaseMemory):
    """Chunks of documents, searched exhaustively.

    Args:
        chunks: chunks with unique ids; there may be none.
        embedder: makes the vectors; None for TF-IDF over memory and conversation together, which needs no model.
        vectors: the embedder's vectors of the chunks, where they are kept; with None they are made on first use.

    Raises:
        DatasetError: if a chunk id comes twice.
    """

    def __init__(
        self,
        chunks: Iterable[ContextChunk] = (),
        embedder: BaseEmbedder | None = None,
        vectors: DocumentVectors | None = None,
    ) -> None:
        self.chunks = tuple(chunks)
        self.embedder = embedder
        self._kept = vectors
        seen: set[str] = set()
        for item in self.chunks:
            if item.id in seen:
                raise DatasetError(f"memory holds chunk {item.id!r} twice: ids must be unique")
            seen.add(item.id)

    @classmethod
    def from_texts(
        cls, texts: Mapping[str, str], chunking: Chunking, embedder: BaseEmbedder | None = None
    ) -> DocumentMemory:
        """Documents by name; ``.md`` and ``.markdown`` are chunked as Markdown, everything else as text."""
        chunks = []
        for name, text in texts.items():
            policy = chunking.markdown if name.lower().endswith(MARKDOWN) else chunking.text
            pieces = chunk(normalize(clean(text)), policy, doc_id=well_formed(name))
            chunks += [ContextChunk.of(piece, "memory") for piece in pieces]
        return cls(chunks, embedder)

    @classmethod
    def from_folder(
        cls, folder: str | Path, chunking: Chunking, embedder: BaseEmbedder | None = None
    ) -> DocumentMemory:
        """The documents that :func:`read_folder` finds.

        Raises:
            DatasetError: if there is no such folder, no document in it, or one that is not UTF-8 text.
        """
        return cls.from_texts(read_folder(folder).texts, chunking, embedder)

    @classmethod
    def from_corpus(
        cls, corpus: Corpus, embedder: BaseEmbedder | None = None, vectors: DocumentVectors | None = None
    ) -> DocumentMemory:
        """A test collection with one chunk a document, so that views can be measured against its qrels."""
        chunks = [
            ContextChunk(doc_id=doc.id, chunk_index=0, content=doc.content, end=len(doc.content), source="memory")
            for doc in corpus
        ]
        return cls(chunks, embedder, vectors)

    def prepare(self) -> None:
        """Make the embedder and the chunks' vectors ready, or the chunks' terms."""
        if self.embedder is None:
            _ = self.index
        else:
            self.embedder.prepare()
            _ = self._vectors

    def search(self, pieces: Sequence[str], conversation: Sequence[ContextChunk], limit: int) -> Matches:
        """Cosines of every chunk and every turn, whatever ``limit`` is."""
        chunks = [*conversation, *self.chunks]
        turns = [item.snippet for item in conversation]
        if self.embedder is None:
            return Matches(chunks, tfidf_cosines(pieces, [TermIndex(turns), self.index]))
        return Matches(chunks, embedded_cosines(self.embedder, pieces, turns, self._vectors))

    def term_weights(self, terms: Collection[str]) -> Mapping[str, float] | None:
        """``ln(1 + N / (1 + df))`` over the chunks, without an embedder."""
        return None if self.embedder is not None else {term: self.index.rarity(term) for term in sorted(terms)}

    @cached_property
    def index(self) -> TermIndex:
        """The chunks' terms."""
        return TermIndex([item.snippet for item in self.chunks])

    @cached_property
    def _vectors(self) -> NDArray[np.float32]:
        if self._kept is not None:
            return self._kept.matrix
        assert self.embedder is not None  # noqa: S101 -- asked only with an embedder; for the type checker
        return self.embedder.embed([item.snippet for item in self.chunks])


def embedded_cosines(
    embedder: BaseEmbedder, pieces: Sequence[str], texts: Sequence[str], matrix: NDArray[np.float32] | None = None
) -> NDArray[np.float64]:
    """Cosines of texts, then of the rows of ``matrix``, with pieces; shape (texts + rows, pieces)."""
    queries = embedder.embed(pieces)
    parts = [embedder.embed(texts)] if texts else []
    if matrix is not None and len(matrix):
        parts.append(matrix)
    if not parts:
        return np.zeros((0, len(pieces)))
    return np.vstack([np.asarray(part @ queries.T, dtype=np.float64) for part in parts]).clip(-1.0, 1.0)
