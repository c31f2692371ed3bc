"""Pool and tracker under any sequence of calls, good and bad, beside a plain model of what they may do."""

from __future__ import annotations

import math
import os
from functools import partial
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ragtune.core.errors import RagtuneError
from ragtune.core.pool.items import TRANSITIONS, ItemState, PoolItem
from ragtune.core.pool.pool import CandidatePool

EXAMPLES = int(os.environ.get("CHAOS_EXAMPLES", "30"))
SETTINGS = settings(max_examples=EXAMPLES, stateful_step_count=25, deadline=None, database=None)

IDS = st.sampled_from([f"d{i}" for i in range(6)])
SCORES = st.one_of(
    st.floats(0.0, 1.0), st.sampled_from([math.nan, math.inf, -0.1, 7.3, "0.5", None, True, [0.5], 10**400])
)
STATES = tuple(ItemState)
AGAIN = {(ItemState.RERANKED, ItemState.IN_FLIGHT), (ItemState.IN_FLIGHT, ItemState.CANDIDATE)}
"""Where documents go beside the table if they are compared (rules P3 and F6)."""


def is_score(value: Any) -> bool:
    return type(value) is float and 0.0 <= value <= 1.0


class PoolMachine(RuleBasedStateMachine):
    """Every operation is done whole, where the table of transitions allows it, or not at all."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = CandidatePool()
        self.states: dict[str, ItemState] = {}
        self.scores: dict[str, float] = {}
        self.ranked_by = np.zeros(0)

    @initialize(n=st.integers(0, 4))
    def begin(self, n: int) -> None:
        self.add([f"d{i}" for i in range(n)], 0.5)

    def attempt(self, is_allowed: bool, call: Any, *arguments: Any) -> bool:
        try:
            call(*arguments)
        except RagtuneError:
            assert not is_allowed
            return False
        assert is_allowed
        return True

    @rule(ids=st.lists(IDS, min_size=1, max_size=3), score=st.sampled_from([0.5, math.nan]))
    def add(self, ids: list[str], score: float) -> None:
        rank = len(self.states)
        items = [PoolItem(doc_id=doc_id, initial_rank=rank + i, retrieval_score=score) for i, doc_id in enumerate(ids)]
        fresh = len(set(ids)) == len(ids) and not set(ids) & set(self.states) and score == score
        if self.attempt(fresh, self.pool.add, items):
            self.states |= dict.fromkeys(ids, ItemState.CANDIDATE)

    @rule(ids=st.lists(IDS, min_size=1, max_size=4), to=st.sampled_from(STATES))
    def move(self, ids: list[str], to: ItemState) -> None:
        is_known = set(ids) <= set(self.states) and len(set(ids)) == len(ids)
        is_legal = is_known and all(to in TRANSITIONS[self.states[doc_id]] for doc_id in ids)
        if self.attempt(is_legal, self.pool.transition, ids, to):
            self.states |= dict.fromkeys(ids, to)

    @rule(
        state=st.sampled_from(STATES),
        to=st.sampled_from([ItemState.IN_FLIGHT, ItemState.CANDIDATE]),
        count=st.integers(1, 3),
    )
    def move_again(self, state: ItemState, to: ItemState, count: int) -> None:
        ids = [doc_id for doc_id, present in self.states.items() if present is state][:count]
        is_legal = not ids or to in TRANSITIONS[state] or (state, to) in AGAIN
        if self.attempt(is_legal, partial(self.pool.transition, again=True), ids, to):
            self.states |= dict.fromkeys(ids, to)

    @rule(scores=st.dictionaries(IDS, SCORES, min_size=1, max_size=4))
    def score(self, scores: dict[str, Any]) -> None:
        are_sent = all(self.states.get(doc_id) is ItemState.IN_FLIGHT for doc_id in scores)
        are_good = all(map(is_score, scores.values()))
        if self.attempt(are_sent and are_good, self.pool.update_scores, scores, "default"):
            self.states |= dict.fromkeys(scores, ItemState.RERANKED)
            self.scores |= scores

    @rule(priorities=st.dictionaries(IDS, SCORES, min_size=1, max_size=4))
    def value(self, priorities: dict[str, Any]) -> None:
        is_good = set(priorities) <= set(self.states) and all(map(is_score, priorities.values()))
        self.attempt(is_good, self.pool.apply_priorities, priorities)

    @rule(ids=st.lists(IDS, min_size=1, max_size=2))
    def meddle(self, ids: list[str]) -> None:
        with self.pool.gate:
            self.attempt(False, self.pool.transition, ids, ItemState.DROPPED)
            self.attempt(False, self.pool.update_scores, dict.fromkeys(ids, 0.5), "default")

    @invariant()
    def finds_the_best_candidates(self) -> None:
        if len(self.ranked_by) != len(self.pool):
            self.ranked_by = self.pool.priorities
        candidates = [i for i, state in enumerate(self.states.values()) if state is ItemState.CANDIDATE]
        best = sorted(candidates, key=lambda i: -self.ranked_by[i])[:3]
        assert self.pool.top_candidates(3, self.ranked_by) == [self.pool.doc_ids[i] for i in best]

    @invariant()
    def agrees_with_the_model(self) -> None:
        assert list(self.pool.doc_ids) == list(self.states)
        columns = self.pool.columns()
        assert [STATES[code] for code in columns.states] == list(self.states.values())
        known = {self.pool.doc_ids[i]: columns.scores[i] for i in np.flatnonzero(~np.isnan(columns.scores))}
        assert {k: v for k, v in known.items() if self.states[k] is not ItemState.DROPPED} == {
            k: v for k, v in self.scores.items() if self.states[k] is not ItemState.DROPPED
        }
        assert ((columns.priorities >= 0) & (columns.priorities <= 1)).all()
        assert not columns.states.flags.writeable


TestPool = PoolMachine.TestCase
TestPool.settings = SETTINGS
