"""A batch on its way to a reranker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from ragtune.core.pool.columns import PoolColumns
from ragtune.core.pool.entries import Entries
from ragtune.core.pool.items import STATES, PoolItem
from ragtune.core.pool.roster import Roster
from ragtune.core.request.context import RAGtuneContext


class Moment(NamedTuple):
    """A pool as it stands at one moment.

    Attributes:
        roster: its documents.
        columns: their numbers.
        strategies: by position, the strategy that reranked a document.
        made: by position, the items that have been looked at.
    """

    roster: Roster
    columns: PoolColumns
    strategies: Mapping[int, str]
    made: dict[int, PoolItem]

    def item(self, position: int) -> PoolItem:
        """The document at ``position`` as it stands at this moment."""
        item = self.made.get(position)
        if item is None:
            states, scores, priorities, _, posteriors, _ = self.columns
            score, posterior = float(scores[position]), float(posteriors[position])
            item = self.made[position] = self.roster.items[position].at(
                STATES[states[position]],
                float(priorities[position]),
                score if score == score else None,  # NaN alone differs from itself
                self.strategies.get(position),
                posterior if posterior == posterior else None,
            )
        return item


class Snapshots(Entries[PoolItem]):
    """Some items of a pool as they stand at one moment, by their positions."""

    def __init__(self, moment: Moment, positions: list[int]) -> None:
        super().__init__([None] * len(positions), partial(_snapshot, moment, positions))
        self._roster = moment.roster
        self._positions = positions

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)  # without the rest of the pool

    @property
    def doc_ids(self) -> list[str]:
        """The ids of the items, none of which is made."""
        doc_ids = self._roster.doc_ids
        return [doc_ids[i] for i in self._positions]

    @property
    def token_counts(self) -> list[int]:
        """The tokens of each item, none of which is made."""
        counts: list[int] = self._roster.token_counts[self._positions].tolist()
        return counts


def _snapshot(moment: Moment, positions: Sequence[int], i: int) -> PoolItem:
    return moment.item(positions[i])


def ids_of(items: Sequence[PoolItem]) -> list[str]:
    """The ids of a batch's documents, read from columns where there are any: then no item is made."""
    return items.doc_ids if isinstance(items, Snapshots) else [item.doc_id for item in items]


def lengths_of(items: Sequence[PoolItem]) -> list[int]:
    """The tokens of each of a batch's documents, as :func:`ids_of` their ids."""
    return items.token_counts if isinstance(items, Snapshots) else [item.token_count for item in items]


class RerankBatch(NamedTuple):
    """What one request wants scored next.

    Attributes:
        items: the documents of the batch.
        context: the request.
        strategy: name of the reranker that is asked.
    """

    items: Sequence[PoolItem]
    context: RAGtuneContext
    strategy: str = "default"
