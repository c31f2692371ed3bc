"""Who is in a pool: ids and places of its documents, and what never changes of them once they have joined."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from ragtune.core.arrays import FloatArray, IntArray
from ragtune.core.errors import InputError, UnknownDocumentError
from ragtune.core.pool.columns import are_finite, extended, read_only, require_finite
from ragtune.core.pool.items import PoolItem, tie_key
from ragtune.core.request.context import GRAPH_SOURCE

_GRAPH_ALONE = {GRAPH_SOURCE}
_NUMBERS = attrgetter("retrieval_score", "priority_value", "fusion_score", "reranker_score", "posterior")


@dataclass(frozen=True)
class Roster:
    """The n documents of a pool in tie-breaking order: by ``initial_rank``, then ``doc_id``.

    Attributes:
        doc_ids: ids of the documents.
        index: position of each id.
        items: the documents as they joined.
        base_scores: shape (n,), the best source score of each, 0 where it has no source.
        retrieval_scores: shape (n,), the first stage's (fused) score.
        discovered: shape (n,), whether only an expander found the document.
        made: what :meth:`once` has made.
    """

    doc_ids: tuple[str, ...]
    index: Mapping[str, int]
    items: tuple[PoolItem, ...]
    base_scores: FloatArray
    retrieval_scores: FloatArray
    discovered: NDArray[np.bool_]
    made: dict[Callable[[Roster], FloatArray], FloatArray] = field(default_factory=dict)

    @classmethod
    def empty(cls) -> Roster:
        """The roster of a pool without documents."""
        return cls((), {}, (), np.empty(0), np.empty(0), np.empty(0, dtype=bool))

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
        doc_ids = (*self.doc_ids, *[item.doc_id for item in new])
        index = dict(self.index)
        index.update(zip(doc_ids[len(index) :], range(len(index), len(doc_ids)), strict=True))
        if len(index) < len(doc_ids):
            twice = next(doc_id for i, doc_id in enumerate(doc_ids) if doc_ids.index(doc_id) < i)
            raise InputError(f"duplicate document id {twice!r} in the pool: ids must be unique")
        _require_finite_items(new)
        return Roster(
            doc_ids=doc_ids,
            index=index,
            items=(*self.items, *new),
            base_scores=extended(self.base_scores, [max(item.sources.values(), default=0.0) for item in new]),
            retrieval_scores=extended(self.retrieval_scores, [item.retrieval_score for item in new]),
            discovered=extended(self.discovered, [item.sources.keys() == _GRAPH_ALONE for item in new]),
        )

    def once(self, make: Callable[[Roster], FloatArray]) -> FloatArray:
        """The column that ``make`` makes of these documents, closed for writing; made when first asked for."""
        if make not in self.made:
            self.made[make] = read_only(make(self))
        return self.made[make]

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


def _require_finite_items(items: Sequence[PoolItem]) -> None:
    numbers = [value for value in chain.from_iterable(map(_NUMBERS, items)) if value is not None]
    numbers += chain.from_iterable([item.sources.values() for item in items])
    if (set(map(type, numbers)) <= {float} and all(map(math.isfinite, numbers))) or are_finite(numbers):
        return
    for item in items:
        given = [item.fusion_score, item.reranker_score, item.posterior]
        own = [item.retrieval_score, item.priority_value, *item.sources.values(), *(v for v in given if v is not None)]
        require_finite(own, [item.doc_id] * len(own), "score")
