"""A document collection in memory, and the selection of its best documents by a dense score vector."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from ragtune.core.arrays import IntArray
from ragtune.core.errors import DatasetError
from ragtune.core.hits import Facts, Hits, TokenCounts, require_well_formed
from ragtune.core.plain import well_formed
from ragtune.core.tokens import count_tokens
from ragtune.core.types import ScoredDocument


def id_ranks(doc_ids: Sequence[str]) -> IntArray:
    """Rank of each id in ascending order of ids, shape (n,): the tie-breaking key of :func:`best_positions`."""
    ranks = np.empty(len(doc_ids), dtype=np.intp)
    ranks[sorted(range(len(doc_ids)), key=doc_ids.__getitem__)] = np.arange(len(doc_ids))
    return ranks


def best_positions(scores: NDArray[np.floating[Any]], tie_ranks: IntArray, k: int, above: float = -np.inf) -> IntArray:
    """Positions of the ``k`` highest finite scores, shape (n,), that exceed ``above``, best first, ties by rank."""
    positions = np.flatnonzero(scores > above)
    if k < len(positions):
        threshold = -np.partition(-scores[positions], k - 1)[k - 1] if k > 0 else np.inf
        positions = positions[scores[positions] >= threshold]
    return positions[np.lexsort((tie_ranks[positions], -scores[positions]))][:k]


class Document(BaseModel):
    """One document of a collection; ``content`` is its title and text as rerankers read them.

    Examples:
        >>> from ragtune import Document
        >>> Document(id="d1", title="Tea", text="Green tea is brewed at 80 degrees.").content
        'Tea Green tea is brewed at 80 degrees.'
    """

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
    """Two documents have one id."""

    def __init__(self, doc_id: str) -> None:
        super().__init__(f"duplicate document id {doc_id!r}: ids must be unique")
        self.doc_id = doc_id


def digest_of(documents: Iterable[Document]) -> str:
    """Return the SHA-256 over the ids and contents of documents, in their order."""
    sha = hashlib.sha256()
    for document in documents:
        content = document.content
        sha.update(f"{len(document.id)}:{document.id}{len(content)}:{content}".encode())
    return sha.hexdigest()


def metadata_of(document: Document) -> dict[str, Any]:
    """Return the metadata of a document in retrieval results."""
    return {"title": document.title} if document.title else {}


class Corpus:
    """Documents in a fixed order, with positions, token counts and a content hash.

    Args:
        documents: documents of the collection, at least one; their ids are unique.
        count: token counter.

    Raises:
        DatasetError: if there is no document, or an id comes twice.

    Examples:
        >>> from ragtune import Corpus, Document
        >>> corpus = Corpus([Document(id="d1", text="green tea"), Document(id="d2", text="salt")])
        >>> len(corpus), corpus.positions(["d2"])
        (2, [1])
    """

    def __init__(self, documents: Iterable[Document], count: Callable[[str], int] = count_tokens) -> None:
        self._documents = list(documents)
        self._index: dict[str, int] = {}
        for i, document in enumerate(self._documents):
            if self._index.setdefault(document.id, i) != i:
                raise DuplicateIdError(document.id)
        if not self._documents:
            raise DatasetError(EMPTY)
        self._count = count
        self._tokens: Any = TokenCounts(len(self._documents), self._tokens_of)
        self._known: dict[int, Facts] = {}

    def __len__(self) -> int:
        return len(self._documents)

    def __iter__(self) -> Iterator[Document]:
        return iter(self._documents)

    def __contains__(self, doc_id: object) -> bool:
        return doc_id in self._index

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
        """Rank of each document's id in ascending order of ids, shape (n,), which breaks ties."""
        return id_ranks(self.doc_ids)

    @cached_property
    def digest(self) -> str:
        """SHA-256 over ids and contents: the key of every index, cache and graph of this corpus."""
        return digest_of(self)

    @cached_property
    def without_text(self) -> int:
        """Number of documents whose content is empty."""
        return sum(not document.content for document in self)

    def ids_at(self, positions: Sequence[int]) -> list[str]:
        """Return ids of the documents at these positions, >= 0."""
        doc_ids = self.doc_ids
        return [doc_ids[i] for i in positions]

    def positions(self, doc_ids: Sequence[str]) -> list[int]:
        """Return positions of documents in the collection's order.

        Raises:
            DatasetError: if there is no such document.
        """
        found: list[int] = self.places(doc_ids).tolist()
        if -1 in found:
            unknown = doc_ids[found.index(-1)]
            raise DatasetError(f"unknown document id {unknown!r}: the corpus does not hold it")
        return found

    def places(self, doc_ids: Sequence[str]) -> IntArray:
        """Return positions of documents, shape (n,), -1 for an unknown one."""
        return np.fromiter(map(self._index.get, doc_ids, repeat(-1)), np.intp, len(doc_ids))

    def position(self, doc_id: str) -> int:
        """Return the position of a document in the collection's order; errors as in :meth:`positions`."""
        return self.positions([doc_id])[0]

    def _document(self, position: int) -> Document:
        return self._documents[position]

    def scored(self, doc_id: str, score: float, sources: dict[str, float] | None = None) -> ScoredDocument:
        """Return the document as a retrieval result; ``score`` is a finite number."""
        return self._fact(self.position(doc_id)).scored(float(score), sources or {})

    def hits_at(self, positions: Sequence[int], scores: Sequence[float], source: str | None = None) -> Hits:
        """Return the documents at these positions as results, best first, whose ``sources`` name ``source`` alone."""
        places = list(positions)
        facts = Lazy(self._fact, places)
        return Hits(self.ids_at(places), scores, facts, source, token_counts=self._tokens[places])

    def _fact(self, position: int) -> Facts:
        return self._known.get(position) or self._look_up(position)

    def _tokens_of(self, positions: Sequence[int]) -> list[int]:
        return [self._count(self._document(i).content) for i in positions]

    def _look_up(self, position: int) -> Facts:
        document = self._document(position)
        require_well_formed(document.id)
        content, tokens = well_formed(document.content), int(self._tokens[[position]][0])
        known = Facts(document.id, content, metadata_of(document), tokens)
        self._known[position] = known
        return known


class Lazy(Sequence[Any]):
    """What a function reads at some positions, when it is asked for; pickled as a list."""

    def __init__(self, read: Callable[[int], Any], positions: Sequence[int]) -> None:
        self._read, self._positions = read, positions

    def __len__(self) -> int:
        return len(self._positions)

    def __getitem__(self, i: Any) -> Any:
        return Lazy(self._read, self._positions[i]) if isinstance(i, slice) else self._read(self._positions[i])

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)
