"""The candidate pool: stable identity, a strict state machine, columns instead of objects (rules P1 to P6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragtune.core.arrays import FloatArray, IntArray
from ragtune.core.errors import IllegalTransitionError
from ragtune.core.hits import Entries
from ragtune.core.pool.columns import (
    CANDIDATE,
    IN_FLIGHT,
    RERANKED,
    PoolColumns,
    all_of,
    calibrated,
    constant,
    extended,
    read_only,
    replaced,
    where,
)
from ragtune.core.pool.items import CODE, STATES, ItemState, PoolItem, SentBatch, origins, tie_key
from ragtune.core.pool.roster import Roster
from ragtune.core.pool.valuation import Belief, EmpiricalBelief, Valuation, unknown
from ragtune.core.request.accounts import Gate

_NO_BATCH = -1  # of a document that no batch has scored


class CandidatePool:
    """All candidates of one request, in tie-breaking order: by ``initial_rank``, then ``doc_id``.

    State lives in read-only arrays of shape (n,), which a change replaces: a moment is kept by keeping them. An item's
    position never changes, so a stable sort of any of them breaks ties by rule. An operation takes at most O(n).

    Args:
        items: the candidates; or ``roster``, where nothing more is known of them.

    Attributes:
        roster: who is in the pool, and what never changes of them.
        doc_ids: all ids in tie-breaking order.
        entries: the items as they entered: for the immutable fields (content, sources, ranks) only.
        states: state codes, shape (n,): positions in ``ItemState``'s order of definition.
        scores: reranker scores, shape (n,), NaN where not reranked.
        retrieval_scores: first-stage (fused) scores, shape (n,).
        base_scores: best source score of each item, shape (n,): the last resort of ``final_score``.
        discovered: whether only an expander found the document, shape (n,): its score is no first stage's.
        estimates: all that the estimator said last, checked.
        priorities: latest estimate of each item, shape (n,).
        posteriors: posterior ranking keys, shape (n,), NaN where the estimator gave none.
        belief: the estimator's belief, if it has one.
        batches: every batch that was sent to a reranker, in that order, failed ones included.

    Raises:
        InputError: on a duplicate ``doc_id``.
        InvalidScoreError: on a score that is not a finite number.
        UnknownDocumentError: from every method, on an id that the pool lacks.
        ControllerOnlyError: from every method that changes the pool, while a component is at work.

    Examples:
        >>> from ragtune.core.pool.items import PoolItem
        >>> from ragtune.core.pool.pool import CandidatePool
        >>> pool = CandidatePool(PoolItem(f"d{i}", initial_rank=i) for i in range(3))
        >>> pool.top_candidates(2)
        ['d0', 'd1']
    """

    def __init__(self, items: Iterable[PoolItem] = (), roster: Roster | None = None) -> None:
        self.keeps_dropped = True  # whether DROPPED items are ranked, like others without a score (rule F1)
        self._hold(roster or Roster.of_items(()))
        n = len(self)
        self._move(read_only(np.full(n, CANDIDATE, dtype=np.int8)))
        self.scores = unknown(n)
        self._scored_in = constant(n, _NO_BATCH)  # the batch that scored each document, a position in ``batches``
        self._estimate(Valuation(self.roster, self.eligible, constant(n, 0.0)))
        self._scored_before_growth = 0
        self.batches: tuple[SentBatch, ...] = ()
        self._rankings: tuple[Callable[[], Sequence[str]], ...] = ()
        self.gate = Gate()  # in the loop, the gate of the request's account
        self._asked: tuple[list[str], IntArray] = [], self.roster.positions(())
        if roster is None:
            self.add(items)

    def _hold(self, roster: Roster) -> None:
        self.roster, self.doc_ids, self.entries = roster, roster.doc_ids, roster.items
        self.retrieval_scores, self.base_scores = roster.retrieval_scores, roster.base_scores
        self.discovered = roster.discovered

    def _move(self, states: NDArray[np.int8]) -> None:
        self.states = states
        self._eligible: IntArray | None = None  # made when it is asked for, since states change twice a batch

    def _estimate(self, estimates: Valuation) -> None:
        self.estimates, self.priorities, self.belief = estimates, estimates.mean, estimates.belief
        self.posteriors = estimates.posteriors

    def add(self, items: Iterable[PoolItem]) -> None:
        """Append new candidates behind the present ones, or none; InputError if a rank comes before a present one."""
        self.grow(Roster.of_items(sorted(items, key=tie_key)))

    def grow(self, joining: Roster) -> None:
        """Append the documents of a roster behind the present ones; errors as in :meth:`add`."""
        self.gate.require_open()
        roster = self.roster.followed_by(joining)
        count = len(joining.doc_ids)
        if count:
            self._scored_before_growth = len(self.reranked)
        self._hold(roster)
        self._move(extended(self.states, constant(count, CANDIDATE)))
        self.scores = extended(self.scores, unknown(count))
        self._scored_in = extended(self._scored_in, constant(count, _NO_BATCH))
        self._estimate(self.estimates.joined(roster, self.eligible))

    def __len__(self) -> int:
        return len(self.roster.doc_ids)

    def __contains__(self, doc_id: object) -> bool:
        return doc_id in self.roster.index

    def __iter__(self) -> Iterator[PoolItem]:
        return iter(self.items_at(np.arange(len(self))))

    def __getitem__(self, doc_id: str) -> PoolItem:
        item: PoolItem = self.get_items([doc_id])[0]
        return item

    @property
    def eligible(self) -> IntArray:
        """Positions of the CANDIDATE items, ascending."""
        if self._eligible is None:
            self._eligible = read_only(where(self.states == CANDIDATE))
        return self._eligible

    @property
    def reranked(self) -> IntArray:
        """Positions of the RERANKED items, ascending."""
        return where(self.states == RERANKED)

    @property
    def scored_since_growth(self) -> int:
        """Documents reranked since candidates last joined; all of them in a pool that never grew."""
        return len(self.reranked) - self._scored_before_growth

    @property
    def rankings(self) -> Sequence[Sequence[str]]:
        """The final order before the first batch and after each one: ids, best first."""
        return [ranking() for ranking in self._rankings]

    @property
    def ranked(self) -> IntArray:
        """Positions of the items that take part in the final order, ascending."""
        return self.columns().ranked

    def columns(self) -> PoolColumns:
        """The pool's numbers as of now; later changes do not reach them. O(1)."""
        numbers = self.states, self.scores, self.priorities, self.base_scores, self.posteriors
        return PoolColumns(*numbers, self.keeps_dropped)

    def strategy_of(self, position: int) -> str | None:
        """The strategy that reranked the document at ``position``; None if none did."""
        batch = self._scored_in[position]
        return None if batch == _NO_BATCH else self.batches[batch].strategy

    def belief_or_empirical(self) -> Belief:
        """The estimator's belief, or the one that its bare opinions and their errors so far amount to."""
        return self.belief or EmpiricalBelief(self.priorities, self.scores)

    def not_candidates(self, doc_ids: Sequence[str], *, again: bool = False) -> list[str]:
        """Those of the documents that may not be scheduled; with ``again``, those may that have a score."""
        find, codes = self.roster.index.get, self.states.tobytes()
        allowed = (CANDIDATE, RERANKED) if again else (CANDIDATE,)
        return [doc_id for doc_id in doc_ids if (at := find(doc_id)) is None or codes[at] not in allowed]

    def positions(self, doc_ids: Iterable[str]) -> IntArray:
        """Positions of documents, in the given order; a batch is asked for when it is priced, sent and scored."""
        doc_ids = list(doc_ids)
        if doc_ids != self._asked[0]:
            self._asked = doc_ids, read_only(self.roster.positions(doc_ids))
        return self._asked[1]

    def valuation(self, mean: FloatArray, **columns: Any) -> Valuation:
        """An estimator's answer about this pool; see :class:`Valuation` for the columns."""
        return Valuation(self.roster, self.eligible, mean, **columns)

    def get_items(self, doc_ids: Iterable[str]) -> Entries[PoolItem]:
        """The named items as they stand now, in the given order."""
        positions = self.positions(doc_ids)
        return self._entries(list(self._asked[0]), positions)  # a list of its own, which a component may change

    def items_at(self, positions: IntArray) -> Entries[PoolItem]:
        """The items at ``positions`` as they stand now, in that order."""
        ids = self.roster.doc_ids
        return self._entries([ids[i] for i in positions.tolist()], positions)

    def _entries(self, doc_ids: Sequence[str], positions: IntArray) -> Entries[PoolItem]:
        columns = self.states, self.scores, self.priorities, self.posteriors, self._scored_in
        make = partial(_item, self.roster.items, columns, self.batches, positions)
        facts = self.entries.all_facts if isinstance(self.entries, Entries) else None
        return Entries(doc_ids, self.roster.tokens, make, positions, facts)

    def get_active_items(self) -> list[PoolItem]:
        """The CANDIDATE and RERANKED items (rule P6), in tie-breaking order."""
        return list(self.items_at(self.columns().active))

    def top_candidates(self, n: int) -> list[str]:
        """The ``n`` best eligible documents by acquisition, else by priority, ties by rule."""
        by = self.priorities if self.estimates.acquisition is None else self.estimates.acquisition
        eligible, doc_ids = self.eligible, self.roster.doc_ids
        best = eligible[(-by[eligible]).argsort(kind="stable")[: max(n, 0)]]
        return [doc_ids[i] for i in best.tolist()]

    # -- writing: the controller only ------------------------------------------------------------------------------

    def note(self, ranking: Callable[[], Sequence[str]]) -> None:
        """Add what gives the present final order to :attr:`rankings`."""
        self.gate.require_open()
        self._rankings = (*self._rankings, ranking)

    def transition(
        self, doc_ids: Iterable[str], target: ItemState, strategy: str = "default", *, again: bool = False
    ) -> None:
        """Move all of ``doc_ids`` to ``target``, or none of them; ``strategy`` scores those that go IN_FLIGHT.

        With ``again``, what has a score may go IN_FLIGHT once more, and what is there CANDIDATE (rules P3 and F6).

        Raises:
            IllegalTransitionError: if any item's state does not allow it, or an id is given twice.
        """
        self.gate.require_open()
        positions = self._distinct(doc_ids)
        is_allowed = origins(target, again)[self.states[positions]]
        if not all_of(is_allowed):
            position = positions[is_allowed.argmin()]
            way = f"from {STATES[self.states[position]].name} to {target.name}"
            raise IllegalTransitionError(f"document {self.doc_ids[position]!r} cannot go {way}")
        self._move(replaced(self.states, positions, CODE[target]))
        if target is ItemState.IN_FLIGHT:
            self.batches = (*self.batches, SentBatch.of(strategy, positions))

    def update_scores(self, scores: Mapping[str, float], strategy: str) -> None:
        """Store the scores of IN_FLIGHT items of the latest batch and move them to RERANKED; all of them or none.

        Raises:
            IllegalTransitionError: if an item is not IN_FLIGHT (rule P5).
            InvalidScoreError: if a score is not a number in [0, 1].
        """
        self.gate.require_open()
        positions = self.positions(scores)
        if not all_of(self.states[positions] == IN_FLIGHT):
            raise IllegalTransitionError(
                f"not all of {list(scores)} are IN_FLIGHT, and no other document takes a score"
            )
        values = calibrated(scores, "score")
        self.scores = replaced(self.scores, positions, values)
        *before, latest = self.batches
        self._scored_in = replaced(self._scored_in, positions, len(before))
        self._move(replaced(self.states, positions, RERANKED))
        sent, found = latest.positions, values
        if sent is not positions:  # some of the batch have no score
            found = self.scores[sent]
            found[self.states[sent] != RERANKED] = np.nan
        self.batches = (*before, SentBatch(strategy, sent, read_only(found)))

    def apply_priorities(self, priorities: Mapping[str, float]) -> None:
        """Write an estimator's output to the items; InvalidScoreError if a priority is not a number in [0, 1]."""
        self.gate.require_open()
        if isinstance(priorities, Valuation) and priorities.roster is self.roster:
            priorities.check(self.estimates)
            self._estimate(priorities)
            return
        positions = self._distinct(priorities)
        self._estimate(self.estimates.revised(positions, calibrated(priorities, "priority")))

    def _distinct(self, doc_ids: Iterable[str]) -> IntArray:
        positions = self.positions(doc_ids)
        if len(set(self._asked[0])) != len(positions):
            raise IllegalTransitionError("a document is named twice in one operation: name each once")
        return positions

    def fork(self) -> CandidatePool:
        """A pool that stands as this one does now; what happens to either does not reach the other."""
        twin = copy(self)  # what it holds is replaced, never changed
        twin.gate = Gate()
        return twin


def _item(
    items: Sequence[PoolItem], columns: Sequence[NDArray[Any]], batches: Sequence[SentBatch], places: IntArray, i: int
) -> PoolItem:
    """The item at a place among ``places``, as it stands at the moment of the columns."""
    position = int(places[i])
    state, score, priority, posterior, batch = (column[position] for column in columns)
    item = PoolItem.__new__(PoolItem)  # dataclasses.replace takes five times as long
    item.__dict__.update(
        items[position].__dict__,
        state=STATES[state],
        priority_value=float(priority),
        reranker_score=float(score) if score == score else None,  # NaN differs from itself
        reranker_strategy=None if batch == _NO_BATCH else batches[batch].strategy,
        posterior=float(posterior) if posterior == posterior else None,
    )
    return item
