"""A document collection in memory: what retrievers and expanders read from."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict

from ragtune.core.arrays import IntArray
from ragtune.core.errors import DatasetError
from ragtune.core.hits import ColumnsById, Facts, Hits
from ragtune.core.tokens import count_tokens
from ragtune.core.types import ScoredDocument
from ragtune.data.topk import id_ranks

K = TypeVar("K")
V = TypeVar("V")


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


EMPTY = "the corpus is empty: at least one document is needed"


class DuplicateIdError(DatasetError):
    """Two documents have one id.

    Args:
        doc_id: the id.
    """

    def __init__(self, doc_id: str) -> None:
        super().__init__(f"duplicate document id {doc_id!r}: ids must be unique")
        self.doc_id = doc_id


def digest_of(documents: Iterable[Document]) -> str:
    """SHA-256 over the ids and contents of documents, in their order."""
    sha = hashlib.sha256()
    for document in documents:
        content = document.content
        sha.update(f"{len(document.id)}:{document.id}{len(content)}:{content}".encode())
    return sha.hexdigest()


def metadata_of(document: Document) -> dict[str, Any]:
    """What retrieval results say of a document beside its content."""
    return {"title": document.title} if document.title else {}


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
                raise DuplicateIdError(document.id)
        if not self._documents:
            raise DatasetError(EMPTY)
        self._begin(count)

    def _begin(self, count: Callable[[str], int]) -> None:
        self._count = count
        self._known: dict[str, Facts] = {}
        self._known_at: dict[int, Facts] = {}
        self._are_sound = True

    def __len__(self) -> int:
        return len(self._documents)

    def __iter__(self) -> Iterator[Document]:
        return iter(self._documents)

    def __contains__(self, doc_id: object) -> bool:
        return self._find(doc_id) is not None

    def __getitem__(self, doc_id: str) -> Document:
        return self._document(self.position(doc_id))

    @cached_property
    def doc_ids(self) -> Sequence[str]:
        """Ids in the collection's order."""
        return [document.id for document in self._documents]

    @cached_property
    def contents(self) -> Sequence[str]:
        """Contents in the collection's order."""
        return [document.content for document in self._documents]

    @cached_property
    def id_ranks(self) -> IntArray:
        """Rank of each document's id in ascending order of ids, shape (n,), by which ties are decided."""
        return id_ranks(self.doc_ids)

    @cached_property
    def digest(self) -> str:
        """SHA-256 over ids and contents: the key of every index, cache and graph made from this corpus."""
        return digest_of(self)

    @cached_property
    def without_text(self) -> int:
        """Number of documents whose content is empty."""
        return sum(not document.content for document in self)

    def unknown(self, doc_ids: Sequence[str]) -> list[str]:
        """Those of the ids that it does not hold."""
        return [doc_id for doc_id in doc_ids if doc_id not in self]

    def ids_at(self, positions: Sequence[int]) -> list[str]:
        """Ids of the documents at these positions, >= 0."""
        return [self.doc_ids[i] for i in positions]

    def positions(self, doc_ids: Sequence[str]) -> list[int]:
        """Positions of documents in the collection's order; errors as in :meth:`position`."""
        try:
            return list(map(self._index.__getitem__, doc_ids))
        except KeyError:
            return list(map(self.position, doc_ids))

    def position(self, doc_id: str) -> int:
        """Position of a document in the collection's order.

        Raises:
            DatasetError: if there is no such document.
        """
        found = self._find(doc_id)
        if found is None:
            raise DatasetError(f"unknown document id {doc_id!r}: the corpus does not hold it")
        return found

    def _find(self, doc_id: object) -> int | None:
        return self._index.get(doc_id)  # type: ignore[call-overload,no-any-return]

    def _document(self, position: int) -> Document:
        return self._documents[position]

    def scored(self, doc_id: str, score: float, sources: dict[str, float] | None = None) -> ScoredDocument:
        """The document as a retrieval result; ``score`` is a finite number."""
        known = self._known.get(doc_id) or self._look_up(doc_id)
        score = float(score)
        return ScoredDocument.trusted(
            {
                "id": doc_id,
                "content": known.content,
                "metadata": dict(known.metadata),
                "score": score,
                "original_score": score,
                "reranker_score": None,
                "fusion_score": None,
                "token_count": known.token_count,
                "sources": dict(sources or {}),
            }
        )

    def hits(self, doc_ids: Sequence[str], scores: Sequence[float], source: str | None = None) -> Hits:
        """Documents as retrieval results, best first; ``source`` is the only one that their ``sources`` name."""
        doc_ids = list(doc_ids)  # nobody looks at them again, so that they must not change
        try:
            facts = list(map(self._known.__getitem__, doc_ids))
        except KeyError:
            facts = self._facts(doc_ids)
        return Hits(doc_ids, scores, facts, source, vouched=self._are_sound)

    def hits_at(self, positions: Sequence[int], scores: Sequence[float], source: str | None = None) -> Hits:
        """The same of documents by their positions in the collection's order."""
        known = list(map(self._known_at.get, positions))
        new = [i for i, fact in zip(positions, known, strict=True) if fact is None]
        made = dict(zip(new, self.hits(self.ids_at(new), ()).facts, strict=True))
        self._remember(self._known_at, made)
        facts = [fact or made[i] for i, fact in zip(positions, known, strict=True)]
        by_id: ColumnsById = {self.positions: list(positions)}
        return Hits([fact.id for fact in facts], scores, facts, source, vouched=self._are_sound, by_id=by_id)

    def _facts(self, doc_ids: Sequence[str]) -> list[Facts]:
        return [self._known.get(doc_id) or self._look_up(doc_id) for doc_id in doc_ids]

    def _look_up(self, doc_id: str) -> Facts:
        document = self[doc_id]
        content = document.content
        known = Facts(document.id, content, metadata_of(document), self._count(content))
        if not known.is_sound:  # said before another thread can find it
            self._are_sound = False
        self._remember(self._known, {doc_id: known})
        return known

    def _remember(self, known: dict[K, V], new: Mapping[K, V]) -> None:
        """Add what has been looked up to what is known."""
        known.update(new)
