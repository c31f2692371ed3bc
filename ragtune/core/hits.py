"""Documents as columns: each is made when it is looked at. And the checks of what components find."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Generic, TypeVar, overload

from ragtune.core.arrays import IntArray
from ragtune.core.errors import InvalidScoreError
from ragtune.core.plain import quoted, well_formed
from ragtune.core.types import ScoredDocument

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a document. A corpus makes them once, and all hits of the document share them.

    Attributes:
        id: id of the document.
        content: its text.
        metadata: what else is known of it.
        token_count: its tokens; 0 where nobody has counted them.
        is_sound: whether all of them are of the right types and can be written down.
    """

    id: str
    content: str
    metadata: dict[str, Any]
    token_count: int
    is_sound: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        kinds = type(self.id), type(self.content), type(self.metadata), type(self.token_count)
        is_sound = kinds == (str, str, dict, int) and self.token_count >= 0
        object.__setattr__(self, "is_sound", is_sound and is_well_formed(self.id) and is_well_formed(self.content))


class _Made(Sequence[T], Generic[T]):
    """A sequence whose members are made when they are looked at; it equals every sequence of equal members."""

    doc_ids: Sequence[str]

    def _at(self, position: int) -> T:
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.doc_ids)

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...

    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if isinstance(index, slice):
            return [self._at(i) for i in range(*index.indices(len(self)))]
        return self._at(range(len(self))[index])

    def __iter__(self) -> Iterator[T]:
        return map(self._at, range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))


class Entries(_Made[T]):
    """Documents of a pool, most of which are ranked and never read; each is made once.

    They travel to other processes as a list.

    Args:
        doc_ids: ids of the n documents.
        token_counts: shape (n,), tokens of each document.
        make: makes the object at a position.
    """

    def __init__(self, doc_ids: Sequence[str], token_counts: IntArray, make: Callable[[int], T]) -> None:
        self.doc_ids = doc_ids
        self._token_counts = token_counts
        self._make = make
        self._made: dict[int, T] = {}

    @property
    def token_counts(self) -> list[int]:
        """Tokens of each document."""
        counts: list[int] = self._token_counts.tolist()
        return counts

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)

    def _at(self, position: int) -> T:
        if position not in self._made:
            self._made[position] = self._make(position)
        return self._made[position]


class Hits(_Made[ScoredDocument]):
    """The documents that one first stage has found for a query, best first.

    As objects the candidates of a query take ten times as long to make as to rank.

    Args:
        doc_ids: ids of the n documents.
        scores: shape (n,), on the first stage's own scale.
        facts: what is known of each document; they may be made when they are looked at.
        source: the only one in the ``sources`` of each document, with its score; None for none.
        vouched: whether the facts are known to be sound, and those of the ids: a corpus has looked at each before.
        token_counts: shape (n,), tokens of each document, as the facts have them: a corpus knows them without its text.
    """

    def __init__(
        self,
        doc_ids: Sequence[str],
        scores: Sequence[float],
        facts: Sequence[Facts],
        source: str | None = None,
        *,
        vouched: bool = False,
        token_counts: Sequence[int] | None = None,
    ) -> None:
        self.doc_ids = doc_ids
        self.scores = scores
        self.facts = facts
        self.source = source
        self.token_counts = token_counts
        self._vouched = vouched

    def _at(self, position: int) -> ScoredDocument:
        score, facts = self.scores[position], self.facts[position]
        return ScoredDocument(
            id=facts.id,
            content=facts.content,
            metadata=facts.metadata,
            token_count=facts.token_count,
            score=score,
            original_score=score,
            sources={} if self.source is None else {self.source: score},
        )

    @property
    def is_sound(self) -> bool:
        """Whether the columns belong together, no id comes twice, every score is a finite number, and every text can be
        written down.
        """
        ids, scores = self.doc_ids, self.scores
        return (
            (self._vouched or self._has_sound_facts())
            and len(set(ids)) == len(ids) == len(scores)
            and are(float, scores)
            and all(map(math.isfinite, scores))
            and (self.source is None or (type(self.source) is str and is_well_formed(self.source)))
        )

    def _has_sound_facts(self) -> bool:
        facts = self.facts
        return (
            are(Facts, facts)
            and list(self.doc_ids) == list(map(_id_of, facts))
            and all(map(_is_sound, facts))
            and (self.token_counts is None or list(self.token_counts) == list(map(_count_of, facts)))
        )


_id_of, _is_sound, _count_of = map(attrgetter, ("id", "is_sound", "token_count"))


def are(kind: type, values: Iterable[object]) -> bool:
    """Whether all of them are of that very type."""
    return set(map(type, values)) <= {kind}


def is_well_formed(text: str) -> bool:
    """Whether it can be written down: without half of a surrogate pair."""
    return text.isascii() or well_formed(text) == text


_KINDS = (("id", str), ("content", str), ("metadata", dict), ("token_count", int))


def checked_documents(found: Iterable[ScoredDocument]) -> Sequence[ScoredDocument]:
    """The documents that a component found, each :func:`sound`; sound :class:`Hits` stay columns.

    Raises:
        InvalidScoreError: on a score that is not a finite number, or a token count below 0.
        TypeError: on anything but documents.
        ValueError: on an id that cannot be encoded.
    """
    return found if type(found) is Hits and found.is_sound else [sound(doc) for doc in found]


def sound(doc: ScoredDocument) -> ScoredDocument:
    """The document with :func:`~ragtune.core.plain.well_formed` texts; raises as :func:`checked_documents` does."""
    if not isinstance(doc, ScoredDocument) or not all(isinstance(doc.__dict__[name], kind) for name, kind in _KINDS):
        raise TypeError(f"{type(doc).__name__} {quoted(doc)} among the documents: allowed is ScoredDocument")
    numbers = (doc.score, doc.original_score, doc.fusion_score or 0.0, doc.reranker_score or 0.0, *doc.sources.values())
    if not all(map(math.isfinite, numbers)):
        raise InvalidScoreError(f"score {doc.score!r} of document {quoted(doc.id)}: allowed is a finite number")
    if doc.token_count < 0:
        raise InvalidScoreError(f"token_count={doc.token_count!r} of document {quoted(doc.id)}: allowed is 0 or more")
    if not is_well_formed(doc.id):
        raise ValueError(f"document id {quoted(doc.id)}: it holds half of a character (a lone surrogate)")
    if all(map(is_well_formed, (doc.content, *doc.sources))):
        return doc
    sources = {well_formed(name): score for name, score in doc.sources.items()}
    return doc.model_copy(update={"content": well_formed(doc.content), "sources": sources})
