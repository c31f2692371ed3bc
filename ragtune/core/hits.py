"""What a first stage has found, as columns."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import filterfalse
from typing import Any, NoReturn, overload

from ragtune.core.plain import quoted, well_formed
from ragtune.core.types import ScoredDocument


class Hits(Sequence[ScoredDocument]):
    """The documents that one first stage has found for a query, best first; each is made when it is looked at.

    Most documents of a pool are only ranked, never read, and as objects the candidates of a query take ten times as
    long to make as to rank.

    Args:
        doc_ids: ids of the n documents.
        scores: shape (n,), on the first stage's own scale.
        facts: of each document its ``id``, ``content``, ``metadata`` and ``token_count``.
        source: the only one in the ``sources`` of each document, with its score; None for none.
    """

    def __init__(
        self,
        doc_ids: Sequence[str],
        scores: Sequence[float],
        facts: Sequence[Mapping[str, Any]],
        source: str | None = None,
    ) -> None:
        self.doc_ids = doc_ids
        self.scores = scores
        self.facts = facts
        self.source = source

    def __len__(self) -> int:
        return len(self.doc_ids)

    @overload
    def __getitem__(self, index: int) -> ScoredDocument: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[ScoredDocument]: ...

    def __getitem__(self, index: int | slice) -> ScoredDocument | Sequence[ScoredDocument]:
        if isinstance(index, slice):
            return Hits(self.doc_ids[index], self.scores[index], self.facts[index], self.source)
        score = self.scores[index]
        sources = {} if self.source is None else {self.source: score}
        return ScoredDocument(score=score, original_score=score, sources=sources, **self.facts[index])

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
        ids, scores, facts = list(self.doc_ids), self.scores, self.facts
        names = () if self.source is None else (self.source,)
        if len(set(ids)) < len(ids) or len(scores) != len(ids) or ids != [fact["id"] for fact in facts]:
            return False
        if are(SoundFacts, facts):
            return are(str, ids) and are_sound((), (), (), (), scores, names)
        contents, metadata, counts = ([fact[name] for fact in facts] for name in ("content", "metadata", "token_count"))
        return are_sound(ids, contents, metadata, counts, scores, names)


class SoundFacts(dict[str, Any]):
    """A document's facts that have been looked at and cannot be changed, so that no request needs to look again.

    Args:
        facts: its ``id``, ``content``, ``metadata`` and ``token_count``.

    Raises:
        ValueError: if they are not what they should be.
    """

    __slots__ = ()

    def __init__(self, facts: Mapping[str, Any]) -> None:
        super().__init__(facts)
        ids, contents, metadata, counts = ([facts[name]] for name in ("id", "content", "metadata", "token_count"))
        if not are_sound(ids, contents, metadata, counts, (), ()):
            raise ValueError(f"{quoted(facts)}: allowed are texts that can be written down, and a count of tokens")

    def __reduce__(self) -> tuple[Any, ...]:
        return SoundFacts, (dict(self),)

    def _refuse(self, *given: Any, **named: Any) -> NoReturn:
        raise TypeError("what is known of a document cannot be changed: every request reads it")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse


def are_sound(
    ids: Sequence[object],
    contents: Sequence[object],
    metadata: Sequence[object],
    counts: Sequence[Any],
    numbers: Sequence[Any],
    names: Collection[object],
) -> bool:
    """Whether columns of documents are what they should be: of the right types, with finite ``numbers`` and texts, the
    sources' ``names`` among them, that can be written down.
    """
    return (
        are(str, (*ids, *contents, *names))
        and are(dict, metadata)
        and are(int, counts)
        and are(float, numbers)
        and all(map(math.isfinite, numbers))
        and min(counts, default=0) >= 0
        and all(map(is_well_formed, filterfalse(str.isascii, (*ids, *contents, *names))))  # type: ignore[arg-type]
    )


def are(kind: type, values: Iterable[object]) -> bool:
    """Whether all of them are of that very type."""
    return set(map(type, values)) <= {kind}


def is_well_formed(text: str) -> bool:
    """Whether it can be written down: without half of a surrogate pair."""
    return text.isascii() or well_formed(text) == text
