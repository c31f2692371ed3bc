"""Pools of passages: passages are scheduled, scored and paid for, and rankings name their documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ragtune.core.arrays import IntArray
from ragtune.core.hits import Entries
from ragtune.core.output import HistoryStep
from ragtune.core.pool.columns import CANDIDATE, RERANKED, PoolColumns, read_only, where
from ragtune.core.pool.items import PoolItem
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.pool.roster import Roster
from ragtune.core.pool.valuation import Belief, Valuation

PASSAGE = "passage"
"""The key of metadata that holds a passage's place: ``{"start": ..., "end": ...}``, characters of its document."""


class PassagePool(CandidatePool):
    """The passages of a pool's documents.

    A passage is settled once a passage of its document has a score that the estimator expects it not to exceed: it is
    no longer eligible. Without a belief of the estimator, none is settled. ``parents`` has the position of each
    passage's document, shape (n,).
    """

    belief: Belief | None = None

    def __init__(self, documents: Roster, passages: Sequence[PoolItem], parents: IntArray, average: int = 1) -> None:
        self.documents, self._average = documents, average
        self.parents = read_only(parents)
        super().__init__(roster=Roster.of_items(passages))

    def _estimate(self, estimates: Valuation) -> None:
        super()._estimate(estimates)
        self._eligible = None

    @property
    def eligible(self) -> IntArray:
        if self._eligible is None:
            is_open = self.states == CANDIDATE
            if self.belief is not None:
                best = np.full(len(self.documents.doc_ids), -np.inf)
                np.maximum.at(best, self.parents, np.where(np.isnan(self.scores), -np.inf, self.scores))
                is_open = is_open & (self.priorities > best[self.parents])
            self._eligible = read_only(where(is_open))
        return self._eligible

    def folded(self, step: HistoryStep) -> HistoryStep:
        """The step with documents for passages: each has the numbers of its best scored passage, or expected best."""
        return HistoryStep(step.amounts, self.documents.doc_ids, step.ordering, self._fold(step)[1])

    def _fold(self, step: HistoryStep) -> tuple[IntArray, PoolColumns]:
        """The position of each document's best passage, and the documents' columns."""
        keys = np.full(len(self), -np.inf)
        keys[step.keys.positions] = step.keys.score
        states = step.columns.states
        order = np.lexsort((-keys, states != RERANKED, self.parents))
        firsts = np.searchsorted(self.parents[order], np.arange(len(self.documents.doc_ids)))
        best = order[firsts]
        scores, posteriors = step.columns.scores[best], step.columns.posteriors[best]
        if self._average > 1:
            places = np.arange(len(order)) - firsts[self.parents[order]]
            counted = order[(places < self._average) & ((states[order] == RERANKED) | (places == 0))]
            parents = self.parents[counted]
            sizes = np.bincount(parents)
            scores = np.bincount(parents, step.columns.scores[counted]) / sizes
            posteriors = np.bincount(parents, step.columns.posteriors[counted]) / sizes
        return best, PoolColumns(
            states[best],
            read_only(scores),
            step.columns.priorities[best],
            self.documents.base_scores,
            read_only(posteriors),
            step.columns.keeps_dropped,
        )

    def read(self, last: HistoryStep, dropped: Mapping[str, str]) -> Reading:
        """What the request has read, given its last step and why passages have no score."""
        best, columns = self._fold(last)
        items = list(self.documents.items)
        for position, passage in enumerate(best.tolist()):
            if (place := self.entries[passage].metadata.get(PASSAGE)) is not None:
                metadata = {**items[position].metadata, PASSAGE: place}
                items[position] = replace(items[position], metadata=metadata)
        documents = CandidatePool(roster=replace(self.documents, items=items))
        documents.keeps_dropped = self.keeps_dropped
        documents._move(columns.states)
        documents.scores, documents.priorities = columns.scores, columns.priorities
        documents.posteriors = columns.posteriors
        lost = {
            self.documents.doc_ids[parent]: why
            for parent, why in zip(self.parents[self.positions(dropped)].tolist(), dropped.values(), strict=True)
            if np.isnan(columns.scores[parent])
        }
        return Reading(documents, self.items_at(where(np.isnan(self.scores))), lost)


@dataclass(frozen=True)
class Reading:
    """What a request has read of documents in passages."""

    documents: CandidatePool  # each with the numbers and the place of its best passage
    unread: Entries[PoolItem]  # the passages without a score
    dropped: dict[str, str]  # why documents have no score, none of whose passages has one
