"""A document collection in memory: what retrievers and expanders read from."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any

from pydantic import BaseModel, ConfigDict

from ragtune.core.errors import DatasetError
from ragtune.core.tokens import count_tokens
from ragtune.core.types import ScoredDocument


class Document(BaseModel):
    """One document of a collection; ``content`` is title and text as rerankers read them."""

    id: str
    text: str
    title: str = ""

    model_config = ConfigDict(frozen=True)

    @property
    def content(self) -> str:
        """The title, a space, and the text."""
        return f"{self.title} {self.text}".strip()


class Corpus:
    """Documents in a fixed order, with positions, token counts and a content hash.

    Args:
        documents: documents of the collection, at least one; their ids are unique.
        count: token counter.

    Raises:
        DatasetError: if there is no document, or an id comes twice.
    """

    def __init__(self, documents: Iterable[Document], count: Callable[[str], int] = count_tokens) -> None:
        self._documents = list(documents)
        self._index: dict[str, int] = {}
        for i, document in enumerate(self._documents):
            if self._index.setdefault(document.id, i) != i:
                raise DatasetError(f"duplicate document id {document.id!r}: ids must be unique")
        if not self._documents:
            raise DatasetError("the corpus is empty: at least one document is needed")
        self._count = count
        self._known: dict[str, dict[str, Any]] = {}

    def __len__(self) -> int:
        return len(self._documents)

    def __iter__(self) -> Iterator[Document]:
        return iter(self._documents)

    def __contains__(self, doc_id: object) -> bool:
        return doc_id in self._index

    def __getitem__(self, doc_id: str) -> Document:
        return self._documents[self.position(doc_id)]

    @cached_property
    def doc_ids(self) -> list[str]:
        """Ids in the collection's order."""
        return [document.id for document in self._documents]

    @cached_property
    def contents(self) -> list[str]:
        """Contents in the collection's order."""
        return [document.content for document in self._documents]

    @cached_property
    def digest(self) -> str:
        """SHA-256 over ids and contents: the key of every index, cache and graph made from this corpus."""
        sha = hashlib.sha256()
        for document in self._documents:
            sha.update(f"{len(document.id)}:{document.id}{len(document.content)}:{document.content}".encode())
        return sha.hexdigest()

    def position(self, doc_id: str) -> int:
        """Position of a document in the collection's order.

        Raises:
            DatasetError: if the collection does not hold it.
        """
        try:
            return self._index[doc_id]
        except KeyError:
            raise DatasetError(f"unknown document id {doc_id!r}: the corpus does not hold it") from None

    def scored(self, doc_id: str, score: float, sources: dict[str, float] | None = None) -> ScoredDocument:
        """The document as a retrieval result; ``score`` is a finite number."""
        known = self._known.get(doc_id)
        if known is None:
            known = self._known[doc_id] = self._facts(self[doc_id])
        return ScoredDocument(score=score, original_score=score, sources={} if sources is None else sources, **known)

    def _facts(self, document: Document) -> dict[str, Any]:
        """What a document's results have in common; each result gets copies of the dicts."""
        return {
            "id": document.id,
            "content": document.content,
            "metadata": {"title": document.title} if document.title else {},
            "token_count": self._count(document.content),
        }
