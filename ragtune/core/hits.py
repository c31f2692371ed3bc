"""Documents as columns: each is made when it is looked at. And the checks of what components find."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from ragtune.core.arrays import FloatArray, IntArray
from ragtune.core.errors import InvalidScoreError
from ragtune.core.plain import quoted, well_formed
from ragtune.core.tokens import count_each
from ragtune.core.types import ScoredDocument

T = TypeVar("T")


class Facts(NamedTuple):
    """What is known of a document, in well-formed texts; ``token_count`` is 0 where it is unknown."""

    id: str
    content: str
    metadata: dict[str, Any]
    token_count: int

    def scored(self, score: float, sources: dict[str, float]) -> ScoredDocument:
        """The document as a retrieval result."""
        return ScoredDocument(
            id=self.id,
            content=self.content,
            metadata=self.metadata,
            token_count=self.token_count,
            score=score,
            original_score=score,
            sources=sources,
        )


class TokenCounts:
    """Tokens of n documents, counted by their positions when they are first asked for."""

    def __init__(self, n: int, count: Callable[[Sequence[int]], Sequence[int]]) -> None:
        self._known = np.full(n, -1)
        self._count = count

    def __getitem__(self, positions: Any) -> IntArray:
        counts: IntArray = self._known[positions]
        if len(new := (counts < 0).nonzero()[0]):
            asked = np.asarray(positions)[new]
            counts[new] = self._known[asked] = self._count(asked.tolist())
        return counts


class _Made(Sequence[T], Generic[T]):
    """A sequence whose members are made when they are looked at; it equals every sequence of equal members."""

    doc_ids: Sequence[str]

    def _at(self, position: int) -> T:
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.doc_ids)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self._at(i) for i in range(*index.indices(len(self)))]
        return self._at(range(len(self))[index])

    def __iter__(self) -> Iterator[T]:
        return map(self._at, range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def __repr__(self) -> str:
        return repr(list(self))


class Entries(_Made[T]):
    """Documents of a pool, most of which are ranked and never read; ``make`` makes each once. They travel as a list."""

    def __init__(
        self,
        doc_ids: Sequence[str],
        token_counts: IntArray | TokenCounts,
        make: Callable[[int], T],
        places: IntArray,
        facts: Sequence[Facts] | None = None,
    ) -> None:
        self.doc_ids = doc_ids
        self._token_counts = token_counts
        self.places = places
        self.all_facts = facts  # of all documents, by place
        self.views: Mapping[str, FloatArray] | None = None  # scores by source of all members, where known as columns
        self._make = make
        self._made: dict[int, T] = {}

    @property
    def token_counts(self) -> list[int]:
        """Tokens of each document."""
        counts: list[int] = self._token_counts[self.places].tolist()
        return counts

    def some(self, members: Sequence[int]) -> Entries[T]:
        """Those members, as columns."""
        doc_ids, places = [self.doc_ids[i] for i in members], self.places[np.asarray(members, dtype=int)]
        return Entries(doc_ids, self._token_counts, lambda i: self._at(members[i]), places, self.all_facts)

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)

    def _at(self, position: int) -> T:
        if position not in self._made:
            self._made[position] = self._make(position)
        return self._made[position]


class Hits(_Made[ScoredDocument]):
    """The documents of one first stage for a query, best first, as columns: objects take ten times as long to make."""

    def __init__(
        self,
        doc_ids: Sequence[str],
        scores: Sequence[float],
        facts: Sequence[Facts],
        source: str | None = None,
        *,
        token_counts: Sequence[int] | IntArray | None = None,
    ) -> None:
        self.doc_ids = doc_ids
        self.scores = scores
        self.facts = facts
        self.source = source
        self.token_counts = (
            TokenCounts(len(doc_ids), self._tokens_of) if token_counts is None else np.asarray(token_counts)
        )

    def _tokens_of(self, positions: Sequence[int]) -> list[int]:
        found = [self.facts[i] for i in positions]
        counted = iter(count_each([one.content for one in found if not one.token_count]))
        return [one.token_count or next(counted) for one in found]

    def _at(self, position: int) -> ScoredDocument:
        score = self.scores[position]
        return self.facts[position].scored(score, {} if self.source is None else {self.source: score})

    @property
    def is_sound(self) -> bool:
        """Whether no id comes twice, and every score is a finite float."""
        ids, scores = self.doc_ids, self.scores
        if not len(set(ids)) == len(ids) == len(scores):
            return False
        return set(map(type, scores)) <= {float} and all(map(math.isfinite, scores))


def checked_documents(found: Iterable[ScoredDocument]) -> Sequence[ScoredDocument]:
    """The documents that a component found, each :func:`sound`; sound :class:`Hits` stay columns."""
    return found if isinstance(found, Hits) and found.is_sound else [sound(doc) for doc in found]


def sound(doc: ScoredDocument) -> ScoredDocument:
    """The document with well-formed texts; InvalidScoreError, TypeError or ValueError where it is unusable."""
    if not isinstance(doc, ScoredDocument):
        raise TypeError(f"{type(doc).__name__} {quoted(doc)} among the documents: allowed is ScoredDocument")
    numbers = (doc.score, doc.original_score, doc.fusion_score or 0.0, doc.reranker_score or 0.0, *doc.sources.values())
    if not all(map(math.isfinite, numbers)):
        raise InvalidScoreError(f"score {doc.score!r} of document {quoted(doc.id)}: allowed is a finite number")
    require_well_formed(doc.id)
    content = well_formed(doc.content)
    return doc if content == doc.content else doc.model_copy(update={"content": content})


def require_well_formed(doc_id: str) -> None:
    """Refuse an id that no file can hold, with a ValueError."""
    if well_formed(doc_id) != doc_id:
        raise ValueError(f"document id {quoted(doc_id)}: it holds half of a character (a lone surrogate)")
