"""What a first stage has found, as columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain, filterfalse
from typing import Any, overload

from ragtune.core.plain import well_formed
from ragtune.core.types import ScoredDocument

_KINDS = {"id": str, "content": str, "metadata": dict, "token_count": int}


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
        if ids != [fact["id"] for fact in facts] or len(scores) != len(ids):
            return False
        columns = ([fact[name] for fact in facts] for name in _KINDS)
        if any(set(map(type, column)) - {kind} for column, kind in zip(columns, _KINDS.values(), strict=True)):
            return False
        texts = chain(ids, [fact["content"] for fact in facts], [self.source or ""])
        return (
            set(map(type, scores)) <= {float}
            and all(map(math.isfinite, scores))
            and len(set(ids)) == len(ids)
            and min([fact["token_count"] for fact in facts], default=0) >= 0
            and all(well_formed(text) == text for text in filterfalse(str.isascii, texts))
        )
