"""What a first stage has found, as columns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, overload

from ragtune.core.plain import well_formed
from ragtune.core.types import ScoredDocument


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


class Hits(Sequence[ScoredDocument]):
    """The documents that one first stage has found for a query, best first; each is made when it is looked at.

    Most documents of a pool are only ranked, never read, and as objects the candidates of a query take ten times as
    long to make as to rank.

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

    def __len__(self) -> int:
        return len(self.doc_ids)

    @overload
    def __getitem__(self, index: int) -> ScoredDocument: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[ScoredDocument]: ...

    def __getitem__(self, index: int | slice) -> ScoredDocument | Sequence[ScoredDocument]:
        if isinstance(index, slice):
            part = self.doc_ids[index], self.scores[index], self.facts[index]
            counts = None if self.token_counts is None else self.token_counts[index]
            return Hits(*part, self.source, vouched=self._vouched, token_counts=counts)
        score, facts = self.scores[index], self.facts[index]
        return ScoredDocument(
            id=facts.id,
            content=facts.content,
            metadata=facts.metadata,
            token_count=facts.token_count,
            score=score,
            original_score=score,
            sources={} if self.source is None else {self.source: score},
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))

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
