"""The documents of a pool, and what never changes about them once they have joined."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from ragtune.core.arrays import FloatArray, IntArray
from ragtune.core.errors import InputError, UnknownDocumentError
from ragtune.core.hits import Entries, Hits, TokenCounts
from ragtune.core.pool.columns import constant, read_only, require, unit_interval
from ragtune.core.pool.items import PoolItem, tie_key
from ragtune.core.request.context import GRAPH_SOURCE
from ragtune.core.types import ScoredDocument


@dataclass(frozen=True)
class Roster:
    """The n documents of a pool by ``initial_rank``, then ``doc_id``; arrays of shape (n,)."""

    doc_ids: tuple[str, ...]
    items: Sequence[PoolItem]
    tokens: IntArray | TokenCounts  # by position
    base_scores: FloatArray  # the best source score, 0 where there is no source
    retrieval_scores: FloatArray  # the first stage's (fused) score
    discovered: NDArray[np.bool_]  # by an expander alone
    next_rank: int = 0  # ``initial_rank`` of a document behind all of them

    @classmethod
    def of(cls, hits: Hits, round_name: str, first_rank: int = 0) -> Roster:
        """The roster of a first stage's checked hits. Makes no item."""
        n, scores = len(hits), read_only(np.array(hits.scores, dtype=float))
        source = hits.source or round_name
        doc_ids = tuple(hits.doc_ids)
        make = partial(_item, hits, source, first_rank)
        items = Entries[PoolItem](doc_ids, hits.token_counts, make, np.arange(n), hits.facts)
        items.views = {source: scores}
        return cls(
            doc_ids=doc_ids,
            items=items,
            tokens=hits.token_counts,
            base_scores=scores,
            retrieval_scores=scores,
            discovered=constant(n, source == GRAPH_SOURCE),
            next_rank=first_rank + n,
        )

    @classmethod
    def of_items(cls, items: Sequence[PoolItem]) -> Roster:
        doc_ids = tuple(item.doc_id for item in items)
        base_scores = np.array([max(item.sources.values(), default=0.0) for item in items], dtype=float)
        retrieval_scores = np.array([item.retrieval_score for item in items], dtype=float)
        for scores in (base_scores, retrieval_scores):
            require(np.isfinite(scores), scores, doc_ids, "score", "a finite number")
        return cls(
            doc_ids=doc_ids,
            items=items,
            tokens=np.array([item.token_count for item in items], dtype=np.int64),
            base_scores=base_scores,
            retrieval_scores=retrieval_scores,
            discovered=np.array([item.sources.keys() == {GRAPH_SOURCE} for item in items], dtype=bool),
            next_rank=max((item.initial_rank + 1 for item in items), default=0),
        )

    def followed_by(self, other: Roster) -> Roster:
        """This roster with another's documents behind. A document's position never changes."""
        if self.items and other.items and tie_key(other.items[0]) < tie_key(self.items[-1]):
            raise InputError(f"document {other.doc_ids[0]!r} ranks before the present ones: additions rank behind them")
        joined = Roster(
            doc_ids=self.doc_ids + other.doc_ids,
            items=[*self.items, *other.items],
            tokens=read_only(np.concatenate([self.token_counts, other.token_counts])),
            base_scores=read_only(np.concatenate([self.base_scores, other.base_scores])),
            retrieval_scores=read_only(np.concatenate([self.retrieval_scores, other.retrieval_scores])),
            discovered=read_only(np.concatenate([self.discovered, other.discovered])),
            next_rank=max(self.next_rank, other.next_rank),
        )
        if len(joined.index) < len(joined.doc_ids):
            twice = next(doc_id for i, doc_id in enumerate(joined.doc_ids) if joined.index[doc_id] != i)
            raise InputError(f"duplicate document id {twice!r} in the pool: ids must be unique")
        return joined

    def joining(self, found: Sequence[ScoredDocument]) -> Roster:
        """The roster of the documents that an expander found and that are not here, each once."""
        if isinstance(found, Hits) and self.index.keys().isdisjoint(found.doc_ids):
            return Roster.of(found, GRAPH_SOURCE, self.next_rank)
        new: dict[str, ScoredDocument] = {}
        for doc in found:
            if doc.id not in self.index:
                new.setdefault(doc.id, doc)
        return Roster.of_items(
            [
                PoolItem.from_document(doc, rank, dict(doc.sources) or {GRAPH_SOURCE: float(doc.score)})
                for rank, doc in enumerate(new.values(), self.next_rank)
            ]
        )

    @property
    def token_counts(self) -> IntArray:
        return self.tokens[np.arange(len(self.doc_ids))]

    @cached_property
    def first_stage_scores(self) -> FloatArray:
        """The retrieval scores, min-max scaled to [0, 1]; those of an expander are only clipped."""
        ranked = ~self.discovered
        scores = np.minimum(np.maximum(self.retrieval_scores, 0.0), 1.0)
        scores[ranked] = unit_interval(self.retrieval_scores[ranked])
        return read_only(scores)

    @cached_property
    def index(self) -> dict[str, int]:
        return dict(zip(self.doc_ids, range(len(self.doc_ids)), strict=True))

    def positions(self, doc_ids: Collection[str]) -> IntArray:
        index = self.index
        try:
            return np.fromiter(map(index.__getitem__, doc_ids), np.intp, len(doc_ids))
        except KeyError:
            raise UnknownDocumentError(*(doc_id for doc_id in doc_ids if doc_id not in index)) from None


def _item(hits: Hits, source: str, first_rank: int, rank: int) -> PoolItem:
    facts, score = hits.facts[rank], hits.scores[rank]
    return PoolItem(
        facts.id,
        facts.content,
        dict(facts.metadata),
        sources={source: score},
        initial_rank=first_rank + rank,
        retrieval_score=score,
        token_count=int(hits.token_counts[[rank]][0]),
    )
