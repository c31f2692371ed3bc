"""Who is in a pool: ids and places of its documents, and what never changes of them once they have joined."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragtune.core.arrays import FloatArray, IntArray
from ragtune.core.errors import IllegalTransitionError, InputError, UnknownDocumentError
from ragtune.core.hits import ColumnsById, Hits
from ragtune.core.pool.columns import are_finite, constant, read_only, require_finite
from ragtune.core.pool.entries import Entries
from ragtune.core.pool.items import PoolItem, tie_key, tokens_of
from ragtune.core.request.context import GRAPH_SOURCE

_NONE = np.empty(0)
_GRAPH_ALONE = {GRAPH_SOURCE}
_NUMBERS = attrgetter("retrieval_score", "priority_value", "fusion_score", "reranker_score", "posterior")


MakeColumn = Callable[["Roster", FloatArray], FloatArray]
Columns = dict[MakeColumn, FloatArray]


@dataclass(frozen=True)
class Roster:
    """The n documents of a pool in tie-breaking order: by ``initial_rank``, then ``doc_id``.

    Attributes:
        doc_ids: ids of the documents.
        items: the documents as they joined.
        token_counts: shape (n,), tokens of each.
        base_scores: shape (n,), the best source score of each, 0 where it has no source.
        retrieval_scores: shape (n,), the first stage's (fused) score.
        discovered: shape (n,), whether only an expander found the document.
        next_rank: ``initial_rank`` of a document that ranks behind all of them.
        made: what :meth:`once` has made.
        made_before: what it had made before the last ones joined.
        by_id: what :meth:`of_ids` has made, of the first documents in a row.
    """

    doc_ids: tuple[str, ...]
    items: Entries[PoolItem]
    token_counts: IntArray
    base_scores: FloatArray
    retrieval_scores: FloatArray
    discovered: NDArray[np.bool_]
    next_rank: int = 0
    made: Columns = field(default_factory=dict)
    made_before: Columns = field(default_factory=dict)
    by_id: ColumnsById = field(default_factory=dict)

    @classmethod
    def empty(cls) -> Roster:
        """The roster of a pool without documents."""
        return cls((), Entries([]), np.empty(0, dtype=np.int64), _NONE, _NONE, np.empty(0, dtype=bool))

    @classmethod
    def of(cls, hits: Hits, round_name: str, first_rank: int = 0) -> Roster:
        """The roster of one first stage's hits, which are sound; no item is made.

        Args:
            hits: the documents.
            round_name: name of their only source, where they name none.
            first_rank: ``initial_rank`` of the first of them.
        """
        n, scores = len(hits), read_only(np.array(hits.scores, dtype=float))
        source = hits.source or round_name
        return cls(
            doc_ids=tuple(hits.doc_ids),
            items=Entries([None] * n, partial(_item, hits, source, first_rank)),
            token_counts=read_only(_token_counts(hits)),
            base_scores=scores,
            retrieval_scores=scores,
            discovered=constant(n, source == GRAPH_SOURCE),
            next_rank=first_rank + n,
            by_id=hits.by_id.copy(),
        )

    def joined(self, new: Sequence[PoolItem]) -> Roster:
        """This roster with further documents behind; a document's position never changes.

        Args:
            new: the documents, in tie-breaking order.

        Raises:
            InputError: if an id is present already or given twice, or a rank would come before a present one.
            InvalidScoreError: if a number is not finite.
        """
        if self.items and new and tie_key(new[0]) < tie_key(self.items[-1]):
            raise InputError(f"document {new[0].doc_id!r} ranks before the present ones: additions rank behind them")
        joining = Roster(
            doc_ids=tuple(item.doc_id for item in new),
            items=Entries(new),
            token_counts=np.array([item.token_count for item in new], dtype=np.int64),
            base_scores=np.array([max(item.sources.values(), default=0.0) for item in new], dtype=float),
            retrieval_scores=np.array([item.retrieval_score for item in new], dtype=float),
            discovered=np.array([item.sources.keys() == _GRAPH_ALONE for item in new], dtype=bool),
            next_rank=max((item.initial_rank + 1 for item in new), default=0),
        )
        followed = self.followed_by(joining)
        _require_finite_items(new)
        return followed

    def followed_by(self, other: Roster) -> Roster:
        """This roster with another's documents behind, which rank behind its own.

        Raises:
            InputError: if an id is in both, or twice in the other.
        """
        doc_ids = self.doc_ids + other.doc_ids
        index = self.index.copy()
        index.update(zip(other.doc_ids, range(len(self.doc_ids), len(doc_ids)), strict=True))
        if len(index) < len(doc_ids):
            twice = next(doc_id for i, doc_id in enumerate(doc_ids) if doc_ids.index(doc_id) < i)
            raise InputError(f"duplicate document id {twice!r} in the pool: ids must be unique")
        joined = Roster(
            doc_ids=doc_ids,
            items=self.items.joined(other.items),
            token_counts=read_only(np.concatenate([self.token_counts, other.token_counts])),
            base_scores=read_only(np.concatenate([self.base_scores, other.base_scores])),
            retrieval_scores=read_only(np.concatenate([self.retrieval_scores, other.retrieval_scores])),
            discovered=read_only(np.concatenate([self.discovered, other.discovered])),
            next_rank=max(self.next_rank, other.next_rank),
            made_before=self.made,
            by_id=self._columns_before(other),
        )
        vars(joined)["index"] = index
        return joined

    @cached_property
    def index(self) -> dict[str, int]:
        """Position of each id; nobody asks for it where the order of the documents is fixed."""
        return dict(zip(self.doc_ids, range(len(self.doc_ids)), strict=True))

    def once(self, make: MakeColumn) -> FloatArray:
        """The column that ``make`` makes of these documents, closed for writing; made when first asked for, out of that
        of the documents before the last ones joined (empty where there is none).
        """
        if make not in self.made:
            self.made[make] = read_only(make(self, self.made_before.get(make, _NONE)))
        return self.made[make]

    def of_ids(self, make: Callable[[Sequence[str]], list[int]]) -> list[int]:
        """What ``make`` makes of each document's id, in order, for reading only; made when asked for, of those that
        have joined since it was asked for before.
        """
        known = self.by_id.get(make, [])
        if len(known) < len(self.doc_ids):
            known = self.by_id[make] = known + make(self.doc_ids[len(known) :])
        return known

    def position(self, doc_id: str) -> int:
        """Position of a document.

        Raises:
            UnknownDocumentError: if there is no such document.
        """
        try:
            return self.index[doc_id]
        except KeyError:
            raise UnknownDocumentError([doc_id]) from None

    def positions(self, doc_ids: Iterable[str]) -> IntArray:
        """Positions of documents, in the given order.

        Raises:
            UnknownDocumentError: naming those that there are not.
        """
        index, doc_ids = self.index, list(doc_ids)
        try:
            return np.fromiter(map(index.__getitem__, doc_ids), np.intp, len(doc_ids))
        except KeyError:
            raise UnknownDocumentError(doc_id for doc_id in doc_ids if doc_id not in index) from None

    def distinct_positions(self, doc_ids: Iterable[str]) -> IntArray:
        """Positions of different documents, in the given order.

        Raises:
            IllegalTransitionError: if one is named twice.
            UnknownDocumentError: naming those that there are not.
        """
        positions = self.positions(doc_ids)
        if len(set(positions.tolist())) != len(positions):
            raise IllegalTransitionError("a document is named twice in one operation: name each once")
        return positions

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "by_id": {}}  # whoever makes those columns, a whole corpus say, does not travel

    def _columns_before(self, other: Roster) -> ColumnsById:
        """What is known by id of these documents and, where that is all of them, of another's behind them."""
        whole = len(self.doc_ids)
        return {
            make: [*known, *other.by_id.get(make, ())] if len(known) == whole else known
            for make, known in self.by_id.items()
        }


def _token_counts(hits: Hits) -> IntArray:
    if hits.token_counts is not None:
        return np.array(hits.token_counts, dtype=np.int64)
    counts = np.fromiter(map(_known_count, hits.facts), np.int64, len(hits))
    if not counts.all():
        for i in np.flatnonzero(counts == 0).tolist():
            counts[i] = tokens_of(hits.facts[i])
    return counts


_known_count = attrgetter("token_count")


def _item(hits: Hits, source: str, first_rank: int, rank: int) -> PoolItem:
    return PoolItem.from_hit(hits, rank, source, first_rank + rank)


def _require_finite_items(items: Sequence[PoolItem]) -> None:
    numbers = [value for value in chain.from_iterable(map(_NUMBERS, items)) if value is not None]
    numbers += chain.from_iterable([item.sources.values() for item in items])
    if (set(map(type, numbers)) <= {float} and all(map(math.isfinite, numbers))) or are_finite(numbers):
        return
    for item in items:
        given = [item.fusion_score, item.reranker_score, item.posterior]
        own = [item.retrieval_score, item.priority_value, *item.sources.values(), *(v for v in given if v is not None)]
        require_finite(own, [item.doc_id] * len(own), "score")
