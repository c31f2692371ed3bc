"""Long-term memory in this process."""

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
from ragtune.superprompt.super_prompt import ContextChunk
from ragtune.superprompt.limits import Chunking
from ragtune.superprompt.memory.base import BaseMemory, Matches
from ragtune.superprompt.memory.inputs import MARKDOWN, read_folder
from ragtune.superprompt.memory.documents import TermIndex
from ragtune.superprompt.reading.text import clean


class DocumentMemory(BaseMemory):
    """Chunks of documents, searched exhaustively.

    Args:
        chunks: chunks with unique ids; may be empty.
        embedder: embedder of chunks and pieces; None for TF-IDF over memory and conversation, which needs no model.
        vectors: cached vectors of the chunks; None embeds them on first use.

    Raises:
        DatasetError: if a chunk id occurs twice.
    """

    def __init__(
        self,
        chunks: Iterable[ContextChunk] = (),
        embedder: BaseEmbedder | None = None,
        vectors: DocumentVectors | None = None,
    ) -> None:
        self.chunks = tuple(chunks)
        self.embedder = embedder
        self._cached = vectors
        seen: set[str] = set()
        for item in self.chunks:
            if item.id in seen:
                raise DatasetError(f"memory holds chunk {item.id!r} twice: ids must be unique")
            seen.add(item.id)

    @classmethod
    def from_texts(
        cls, texts: Mapping[str, str], chunking: Chunking, embedder: BaseEmbedder | None = None
    ) -> DocumentMemory:
        """Chunk documents by name: ``.md`` and ``.markdown`` as Markdown, all others as text."""
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
        """Chunk the documents of :func:`read_folder`.

        Raises:
            DatasetError: if the folder is missing or has no document, or a document is not UTF-8 text.
        """
        return cls.from_texts(read_folder(folder).texts, chunking, embedder)

    @classmethod
    def from_corpus(
        cls, corpus: Corpus, embedder: BaseEmbedder | None = None, vectors: DocumentVectors | None = None
    ) -> DocumentMemory:
        """Take each document of a test collection as one chunk, so views can be evaluated with its judgments."""
        chunks = [
            ContextChunk(doc_id=doc.id, chunk_index=0, content=doc.content, end=len(doc.content), source="memory")
            for doc in corpus
        ]
        return cls(chunks, embedder, vectors)

    def prepare(self) -> None:
        """Load the embedder and the chunks' vectors, or index the chunks' terms."""
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
        return None if self.embedder is not None else {term: self.index.rarity(term) for term in sorted(terms)}

    @cached_property
    def index(self) -> TermIndex:
        """The chunks' terms."""
        return TermIndex([item.snippet for item in self.chunks])

    @cached_property
    def _vectors(self) -> NDArray[np.float32]:
        if self._cached is not None:
            return self._cached.matrix
        assert self.embedder is not None  # noqa: S101 -- for the type checker
        return self.embedder.embed([item.snippet for item in self.chunks])
