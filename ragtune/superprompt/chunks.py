"""The pipeline's chunk: a canonical chunk with a source."""

from __future__ import annotations

from typing import Literal, get_args

from ragtune.canonical.types import Chunk

Source = Literal["conversation", "memory"]

SOURCES: tuple[Source, ...] = get_args(Source)
"""The sources in the order that breaks ties: the conversation comes first."""


class ContextChunk(Chunk):
    """One retrieved piece of text (rule E3), frozen.

    Attributes:
        source: ``conversation`` for turns of this session, ``memory`` for long-term documents.
        doc_id, chunk_index, content, tags, metadata, start, end: as in :class:`ragtune.canonical.types.Chunk`.
    """

    source: Source

    @property
    def id(self) -> str:
        """``doc_id#chunk_index``. The index follows the last ``#``, so ids are unambiguous."""
        return f"{self.doc_id}#{self.chunk_index}"

    @property
    def snippet(self) -> str:
        """The text that is scored, judged and quoted."""
        return self.content

    @property
    def tie_key(self) -> tuple[int, str, int]:
        """Ascending order of equal scores: source, document, position in it."""
        return SOURCES.index(self.source), self.doc_id, self.chunk_index

    @classmethod
    def of(cls, chunk: Chunk, source: Source) -> ContextChunk:
        """Return a canonical chunk with its source and a copy of its metadata."""
        return cls(**chunk.model_copy(deep=True).__dict__, source=source)


def document_of(chunk_id: str) -> str:
    """Return the ``doc_id`` of a chunk id."""
    return chunk_id.rpartition("#")[0]
