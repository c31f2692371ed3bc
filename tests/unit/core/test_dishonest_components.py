"""Whatever components do, a request keeps its budget, its documents and its manners (issue: a plugin is not trusted).

Every component follows a script of misdeeds, call by call. ``CHAOS_EXAMPLES`` says how many requests are tried.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import cycle, pairwise
from random import Random
from typing import Any

import numpy as np
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from ragtune import CostBudget, RAGtuneController, RetrievalPlan, ScoredDocument
from ragtune.core.errors import RagtuneError
from ragtune.core.interfaces import (
    BaseAssembler,
    BaseEstimator,
    BaseExpander,
    BaseReformulator,
    BaseReranker,
    BaseRetriever,
    BaseScheduler,
)
from ragtune.core.pool.items import TRANSITIONS, ItemState
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import BatchProposal, CostObject, StopRecord

EXAMPLES = int(os.environ.get("CHAOS_EXAMPLES", "300"))
TOKENS = 7
"""Of every document, whatever an assembler says of them."""

Misdeed = Callable[..., Any]


def document(doc_id: str, score: float = 0.5) -> ScoredDocument:
    return ScoredDocument(id=doc_id, content=f"text of {doc_id}", score=score, token_count=TOKENS)


def unchecked_cost(**amounts: Any) -> CostObject:
    return CostObject.model_construct(**{"tokens": 0, "docs": 0, "calls": 0, "latency_ms": 0.0, "usd": 0.0, **amounts})


def raising(*_: Any) -> Any:
    raise RuntimeError("on fire")


# -- misdeeds that any component with a context may add to its work ----------------------------------------------------

COSTS = [
    unchecked_cost(tokens=-50, docs=-5, calls=-5, latency_ms=-100.0, usd=-1.0),
    unchecked_cost(latency_ms=math.nan, usd=math.nan),
    unchecked_cost(latency_ms=math.inf, usd=math.inf),
    unchecked_cost(tokens=10**15, usd=1e15),
    unchecked_cost(tokens="many", usd=None),
    CostObject(tokens=3),
    None,
]

MEDDLING: list[Callable[[RAGtuneContext], Any]] = [
    lambda context: None,
    *(lambda context, cost=cost: context.meter.charge(cost) for cost in COSTS),
    *(lambda context, cost=cost: context.meter.pay(cost) for cost in COSTS[:5]),
    *(lambda context, cost=cost: context.tracker.refund(cost) for cost in COSTS),
    lambda context: context.tracker.refund(CostObject(docs=1, calls=1)),
    lambda context: context.tracker.settle(CostObject(docs=5, calls=5, tokens=50), CostObject()),
    lambda context: context.tracker.consume(CostObject(docs=1, calls=1)),
    lambda context: context.tracker.consume(unchecked_cost(docs=-5, calls=-5)),
    lambda context: context.tracker.try_consume_tokens(1),
    lambda context: context.tracker.try_consume_tokens(-50),
    lambda context: setattr(context, "meter", None),
    lambda context: setattr(context, "tracker", CostBudget.unlimited().create_tracker()),
    lambda context: context.memory.clear(),
]


# -- components --------------------------------------------------------------------------------------------------------


class Script:
    """What a component does, call by call, over and over; and what it adds to that."""

    def __init__(self, deeds: Sequence[Misdeed], meddling: Sequence[Callable[[RAGtuneContext], Any]]) -> None:
        self._deeds, self._meddling = cycle(deeds), cycle(meddling)

    def next(self, context: RAGtuneContext | None = None) -> Misdeed:
        meddle = next(self._meddling)
        if context is not None:
            meddle(context)
        return next(self._deeds)


RETRIEVALS: list[Misdeed] = [
    lambda docs: docs,
    lambda docs: docs[::2],
    lambda docs: [],
    lambda docs: [*docs, *docs],
    lambda docs: [document(doc.id, 1e300 * (-1) ** i) for i, doc in enumerate(docs)],
    lambda docs: [document(doc.id, math.nan) for doc in docs],
    lambda docs: [doc.model_copy(update={"sources": {"bm25": math.inf}}) for doc in docs],
    lambda docs: [doc.model_copy(update={"score": "high"}) for doc in docs],
    lambda docs: [doc.id for doc in docs],
    lambda docs: None,
    lambda docs: docs * 50,
    raising,
]


@dataclass
class Retriever(BaseRetriever):
    docs: list[ScoredDocument]
    script: Script
    calls: int = 0

    def retrieve(self, context: RAGtuneContext, top_k: int) -> Any:
        self.calls += 1
        return self.script.next(context)(self.docs)


REWRITES: list[Misdeed] = [
    lambda: ["one view", "another view", "a third"],
    lambda: "a string is a list of letters",
    lambda: None,
    lambda: [None, 3, "a view"],
    lambda: [""] * 3,
    lambda: [f"view {i}" for i in range(50)],
    lambda: {"a": 1},
    raising,
]


@dataclass
class Reformulator(BaseReformulator):
    script: Script
    cost: Any
    calls: int = 0

    def generate(self, context: RAGtuneContext, first_round: Sequence[ScoredDocument]) -> Any:
        self.calls += 1
        return self.script.next(context)()

    def expected_cost(self, context: RAGtuneContext, first_round: Sequence[ScoredDocument]) -> Any:
        return self.cost


def _moves(pool: Any, context: Any) -> Any:
    pool.transition(list(pool.doc_ids)[:2], ItemState.DROPPED)
    return {}


def _scores(pool: Any, context: Any) -> Any:
    pool.update_scores({pool.doc_ids[0]: 1.0}, "default")
    return {}


def _mutates(pool: Any, context: Any) -> Any:
    for column in (pool.priorities, pool.scores, pool.base_scores, pool.eligible):
        column[:] = 0
    return {}


def _later_changed(pool: Any, context: Any) -> Any:
    mean = np.full(len(pool), 0.5)
    valuation = pool.valuation(mean)
    context.remember(_later_changed, lambda: []).append(mean)
    for earlier in context.remember(_later_changed, list):
        earlier[:] = np.nan
    return valuation


VALUES: list[Misdeed] = [
    lambda pool, context: pool.valuation(np.linspace(0.0, 1.0, len(pool))),
    lambda pool, context: {pool.doc_ids[i]: 0.0 for i in pool.eligible},
    lambda pool, context: None,
    lambda pool, context: dict.fromkeys(pool.doc_ids, 99),
    lambda pool, context: dict.fromkeys(pool.doc_ids, math.nan),
    lambda pool, context: dict.fromkeys(pool.doc_ids, "0.5"),
    lambda pool, context: dict.fromkeys(pool.doc_ids, True),
    lambda pool, context: {"stranger": 0.5},
    lambda pool, context: [0.5] * len(pool),
    lambda pool, context: pool.valuation(np.full(len(pool) + 1, 0.5)),
    lambda pool, context: pool.valuation(np.full(len(pool), 7.0)),
    lambda pool, context: pool.valuation(np.full(len(pool), 0.5), posterior=np.full(len(pool), math.inf)),
    lambda pool, context: pool.valuation(np.full(len(pool), 0.5), batch_limit=0),
    lambda pool, context: pool.valuation(np.full(len(pool), 0.5), diagnostics={"x": object()}),
    _moves,
    _scores,
    _mutates,
    _later_changed,
    raising,
]


@dataclass
class Estimator(BaseEstimator):
    script: Script

    def value(self, pool: Any, context: RAGtuneContext) -> Any:
        return self.script.next(context)(pool, context)


def best(pool: Any, count: int) -> list[str]:
    return list(pool.top_candidates(count))


PROPOSALS: list[Misdeed] = [
    lambda pool, view: BatchProposal(doc_ids=best(pool, 3)),
    lambda pool, view: BatchProposal(doc_ids=best(pool, 1000), strategy="strong"),
    lambda pool, view: BatchProposal(doc_ids=[*best(pool, 2), "stranger"]),
    lambda pool, view: BatchProposal(doc_ids=best(pool, 1) * 2),
    lambda pool, view: BatchProposal(doc_ids=list(pool.doc_ids)),
    lambda pool, view: BatchProposal(doc_ids=[]),
    lambda pool, view: BatchProposal(doc_ids=best(pool, 2), strategy="unknown"),
    lambda pool, view: BatchProposal(doc_ids=best(pool, 2), diagnostics={"x": object()}),
    lambda pool, view: BatchProposal(doc_ids=best(pool, 2), expected_cost=unchecked_cost(docs=-9, usd=math.nan)),
    lambda pool, view: BatchProposal.model_construct(doc_ids=None, strategy=None, diagnostics=None),
    lambda pool, view: BatchProposal.model_construct(doc_ids=[None, 3], strategy="default", diagnostics={}),
    lambda pool, view: StopRecord(reason="enough", source="scheduler"),
    lambda pool, view: None,
    lambda pool, view: "stop",
    lambda pool, view: _moves(pool, view),
    lambda pool, view: _mutates(pool, view),
    raising,
]


@dataclass
class Scheduler(BaseScheduler):
    script: Script

    def select_batch(self, pool: Any, budget: Any) -> Any:
        return self.script.next()(pool, budget)


def _spoiled(items: Any) -> Any:
    for item in items:
        item.metadata["seen"] = True
        item.sources.clear()
        item.__dict__.update(state=ItemState.DROPPED, priority_value=math.nan, token_count=-1)
    return {item.doc_id: 0.5 for item in items}


SCORES: list[Misdeed] = [
    lambda items: {item.doc_id: (i + 1) / 100 for i, item in enumerate(items)},
    lambda items: {item.doc_id: math.nan if i % 2 else 0.5 for i, item in enumerate(items)},
    lambda items: {item.doc_id: math.inf for item in items},
    lambda items: {item.doc_id: 7.3 for item in items},
    lambda items: {item.doc_id: -0.1 for item in items},
    lambda items: {item.doc_id: "0.5" for item in items},
    lambda items: {item.doc_id: True for item in items},
    lambda items: {item.doc_id: None for item in items},
    lambda items: {item.doc_id: [0.5] for item in items},
    lambda items: {items[0].doc_id: 0.9},
    lambda items: {**{item.doc_id: 0.4 for item in items}, "stranger": 0.5, 3: 0.1},
    lambda items: {f"doc_{i}": 0.3 for i in range(12)},
    lambda items: {},
    lambda items: None,
    lambda items: [0.5] * len(items),
    lambda items: {item.doc_id: np.float32(0.25) for item in items},
    lambda items: items.clear() or {},
    _spoiled,
    raising,
]

PRICES: list[Misdeed] = [
    lambda items: CostObject(docs=len(items), calls=1, tokens=3 * len(items)),
    lambda items: CostObject(),
    lambda items: CostObject(tokens=1),
    lambda items: None,
    lambda items: "cheap",
    lambda items: unchecked_cost(docs=-9, calls=-9, tokens=-9, latency_ms=-9.0, usd=-9.0),
    lambda items: unchecked_cost(latency_ms=math.nan, usd=math.nan),
    raising,
]


@dataclass
class Sent:
    """What reached the rerankers."""

    docs: int = 0
    calls: int = 0


@dataclass
class Reranker(BaseReranker):
    script: Script
    prices: Script
    sent: Sent

    def rerank(self, items: Any, context: RAGtuneContext, strategy: str) -> Any:
        self.sent.docs += len(items)
        self.sent.calls += 1
        return self.script.next(context)(items)

    def expected_cost(self, items: Any, context: RAGtuneContext) -> Any:
        return self.prices.next()(items)

    @property
    def is_recorded(self) -> bool:
        return True


ASSEMBLIES: list[Misdeed] = [
    lambda items, tracker: [document(item.doc_id) for item in items if tracker.try_consume_tokens(TOKENS)],
    lambda items, tracker: [document(item.doc_id) for item in items],
    lambda items, tracker: [document(item.doc_id).model_copy(update={"token_count": 0}) for item in items],
    lambda items, tracker: [document(item.doc_id).model_copy(update={"token_count": -9}) for item in items],
    lambda items, tracker: [document("stranger"), *(document(item.doc_id) for item in items[:1])],
    lambda items, tracker: [document(item.doc_id) for item in items[:1] for _ in range(3)],
    lambda items, tracker: [item.doc_id for item in items],
    lambda items, tracker: list(items),
    lambda items, tracker: None,
    lambda items, tracker: items.clear() or [],
    raising,
]


@dataclass
class Assembler(BaseAssembler):
    script: Script

    def assemble(self, items: Any, context: RAGtuneContext) -> Any:
        return self.script.next(context)(items, context.tracker)


def new(pool: Any, count: int = 1, score: float = 0.5) -> list[ScoredDocument]:
    """Documents that the pool lacks, out of a collection that is finite: else an unlimited request had no end."""
    return [document(f"new_{i}", score) for i in range(20) if f"new_{i}" not in pool][:count]


EXPANSIONS: list[Misdeed] = [
    lambda pool, limit: new(pool),
    lambda pool, limit: [],
    lambda pool, limit: new(pool, score=math.nan),
    lambda pool, limit: new(pool) * 3,
    lambda pool, limit: [document(doc_id) for doc_id in pool.doc_ids],
    lambda pool, limit: new(pool, min(limit, 10) + 3),
    lambda pool, limit: None,
    lambda pool, limit: ["new"],
    lambda pool, limit: _moves(pool, limit),
    raising,
]


@dataclass
class Expander(BaseExpander):
    script: Script
    found: set[str] = field(default_factory=set)

    def expand(self, pool: Any, context: RAGtuneContext, limit: int) -> Any:
        found = self.script.next(context)(pool, limit)
        self.found |= {doc.id for doc in found or () if isinstance(doc, ScoredDocument)}
        return found


# -- worlds ------------------------------------------------------------------------------------------------------------


@dataclass
class World:
    """A controller of dishonest components under a small budget, all of it drawn from ``seed``."""

    seed: int

    def __post_init__(self) -> None:
        self._rng = Random(self.seed)
        docs = [document(f"doc_{i}", 1.0 - i / 10) for i in range(self._rng.randint(0, 8))]
        self.sent = Sent()
        self.retriever = Retriever(docs, self._script(RETRIEVALS))
        self.reformulator = Reformulator(self._script(REWRITES), self._rng.choice([CostObject(), *COSTS]))
        self.expander = self._rng.choice([None, Expander(self._script(EXPANSIONS))])
        self.budget = self._budget()
        self.controller = RAGtuneController(
            retriever=self.retriever,
            reformulator=self.reformulator,
            estimator=Estimator(self._script(VALUES)),
            scheduler=Scheduler(self._script(PROPOSALS)),
            reranker={
                name: Reranker(self._script(SCORES), self._script(PRICES), self.sent) for name in ("default", "strong")
            },
            assembler=Assembler(self._script(ASSEMBLIES)),
            expander=self.expander,
            plan=RetrievalPlan(original_query_depth=8, num_reformulations=3),
            budget=self.budget,
        )

    def _script(self, table: list[Misdeed]) -> Script:
        """Every other deed is the first of its table, honest work."""
        deeds = [self._rng.choice([table[0], self._rng.choice(table)]) for _ in range(self._rng.randint(1, 4))]
        meddling = [self._rng.choice([MEDDLING[0]] * 2 + [self._rng.choice(MEDDLING)]) for _ in deeds]
        return Script(deeds, meddling)

    def _budget(self) -> CostBudget:
        choose = self._rng.choice
        return CostBudget(
            max_tokens=choose([None, self._rng.randint(0, 60)]),
            max_reranker_docs=choose([None, self._rng.randint(0, 12)]),
            max_reranker_calls=choose([None, self._rng.randint(0, 5)]),
            max_reformulations=choose([0, 1, 2]),
            max_retrieval_rounds=choose([0, 1, 2, 3]),
            max_latency_ms=choose([None, 0.0, 50.0]),
            max_cost_usd=choose([None, 0.0, 0.5]),
            max_expanded_docs=choose([None, self._rng.randint(0, 4)]),
            assembly_token_buffer=choose([None, 0, 14]),
            charge_failures=choose([True, False]),
        )


# -- what must hold ----------------------------------------------------------------------------------------------------


@settings(max_examples=EXAMPLES, deadline=None, database=None, phases=[Phase.generate])  # a seed cannot be shrunk
@given(st.integers(0, 2**64 - 1))
def test_no_component_can_break_a_request(seed: int) -> None:
    world = World(seed)
    try:
        output = world.controller.run("query")
    except RagtuneError:
        return
    finally:
        _assert_nothing_overspent(world)
    _assert_account_is_sound(world, output)
    _assert_every_document_is_there_once(world, output)
    _assert_every_move_was_legal(output)
    _assert_context_is_affordable(world, output)
    output.model_dump_json()


def within(used: float, limit: float | None) -> bool:
    return limit is None or used <= limit


def _assert_nothing_overspent(world: World) -> None:
    budget = world.budget
    if budget.charge_failures:  # else rule F2 to the letter: what fails is as if it had not been sent
        assert within(world.sent.docs, budget.max_reranker_docs)
        assert within(world.sent.calls, budget.max_reranker_calls)
    assert within(world.reformulator.calls, budget.max_reformulations)
    assert within(world.retriever.calls - 1, budget.max_retrieval_rounds)


def _assert_account_is_sound(world: World, output: Any) -> None:
    account = output.final_budget_state
    assert all(math.isfinite(used) and used >= 0 for used in account.values()), account
    if world.budget.charge_failures:
        assert account["rerank_docs"] == world.sent.docs
        assert account["rerank_calls"] >= world.sent.calls
    assert within(account["rerank_docs"], world.budget.max_reranker_docs)


def _assert_every_document_is_there_once(world: World, output: Any) -> None:
    pool = output.history[-1].doc_ids
    assert len(set(pool)) == len(pool)
    assert sorted(output.ranking) == sorted(pool)
    found = set() if world.expander is None else world.expander.found
    assert set(pool) <= {doc.id for doc in world.retriever.docs} | found
    assert within(sum(doc_id.startswith("new") for doc_id in pool), world.budget.max_expanded_docs)


def _assert_every_move_was_legal(output: Any) -> None:
    states = tuple(ItemState)
    for before, after in pairwise(step.columns for step in output.history):
        for was, now in zip(before.states, after.states[: len(before.states)], strict=True):
            assert was == now or _leads_to(states[was], states[now]), (states[was], states[now])
    last = output.history[-1].columns
    assert ItemState.IN_FLIGHT not in {states[code] for code in last.states}
    scored = ~np.isnan(last.scores)
    assert ((last.scores[scored] >= 0) & (last.scores[scored] <= 1)).all()
    assert ((last.priorities >= 0) & (last.priorities <= 1)).all()


def _leads_to(was: ItemState, now: ItemState) -> bool:
    """In one transition or two: a batch is IN_FLIGHT between two steps."""
    return now in TRANSITIONS[was] or any(now in TRANSITIONS[between] for between in TRANSITIONS[was])


def _assert_context_is_affordable(world: World, output: Any) -> None:
    ids = [doc.id for doc in output.documents]
    assert len(set(ids)) == len(ids)
    assert set(ids) <= set(output.ranking)
    assert within(TOKENS * len(ids), world.budget.max_tokens)
