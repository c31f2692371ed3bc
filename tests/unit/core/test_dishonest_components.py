"""Whatever components return or raise, a request keeps its budget and its documents.

Every component follows a script of misdeeds, call by call. ``CHAOS_EXAMPLES`` says how many requests are tried.
"""

import math
import os
from collections.abc import Callable
from itertools import cycle
from random import Random
from typing import Any

import numpy as np
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from ragtune import CostBudget, ScoredDocument
from ragtune.core.pool.items import ItemState
from ragtune.core.types import BatchProposal, CostObject, StopRecord

EXAMPLES = int(os.environ.get("CHAOS_EXAMPLES", "200"))
TOKENS = 7
Misdeed = Callable[..., Any]


def document(doc_id: str, score: float = 0.5) -> ScoredDocument:
    return ScoredDocument(id=doc_id, content=f"text of {doc_id}", score=score, token_count=TOKENS)


def raising(*_: Any) -> Any:
    raise RuntimeError("on fire")


def moving(pool: Any, _: Any) -> Any:
    pool.transition(list(pool.doc_ids)[:2], ItemState.DROPPED)


VALUES: list[Misdeed] = [
    lambda pool, _: pool.valuation(np.linspace(0.0, 1.0, len(pool))),
    lambda pool, _: {pool.doc_ids[i]: 0.0 for i in pool.eligible},
    lambda pool, _: None,
    lambda pool, _: dict.fromkeys(pool.doc_ids, math.nan),
    lambda pool, _: {"stranger": 0.5},
    lambda pool, _: pool.valuation(np.full(len(pool) + 1, 0.5)),
    lambda pool, _: pool.valuation(np.full(len(pool), 0.5), batch_limit=0),
    moving,
    raising,
]
PROPOSALS: list[Misdeed] = [
    lambda pool, _: BatchProposal(doc_ids=pool.top_candidates(3)),
    lambda pool, _: BatchProposal(doc_ids=pool.top_candidates(1000), strategy="strong"),
    lambda pool, _: BatchProposal(doc_ids=[*pool.top_candidates(2), "stranger"]),
    lambda pool, _: BatchProposal(doc_ids=pool.top_candidates(1) * 2),
    lambda pool, _: BatchProposal(doc_ids=list(pool.doc_ids)),
    lambda pool, _: BatchProposal(doc_ids=pool.top_candidates(2), strategy="unknown"),
    lambda pool, _: StopRecord(reason="enough", source="scheduler"),
    lambda pool, _: None,
    moving,
    raising,
]
SCORES: list[Misdeed] = [
    lambda items: {item.doc_id: (i + 1) / 100 for i, item in enumerate(items)},
    lambda items: {item.doc_id: math.nan if i % 2 else 0.5 for i, item in enumerate(items)},
    lambda items: {item.doc_id: 7.3 for item in items},
    lambda items: {items[0].doc_id: 0.9},
    lambda items: {**{item.doc_id: 0.4 for item in items}, "stranger": 0.5},
    lambda items: None,
    raising,
]
PRICES: list[Misdeed] = [
    lambda items: CostObject(docs=len(items), calls=1, tokens=3 * len(items)),
    lambda items: CostObject(),
    lambda items: None,
    raising,
]
ASSEMBLIES: list[Misdeed] = [
    lambda items, context: [document(it.doc_id) for it in items if context.tracker.try_consume_tokens(TOKENS)],
    lambda items, context: [document(item.doc_id) for item in items],
    lambda items, context: [document("stranger"), *(document(item.doc_id) for item in items[:1])],
    lambda items, context: [document(item.doc_id) for item in items[:1] for _ in range(3)],
    lambda items, context: None,
    raising,
]
EXPANSIONS: list[Misdeed] = [
    lambda pool, limit: [document(f"new_{len(pool)}")] * (len(pool) < 15),
    lambda pool, limit: [document(f"new_{len(pool)}", math.nan)],
    lambda pool, limit: [document(doc_id) for doc_id in pool.doc_ids],
    lambda pool, limit: [document(f"new_{i}") for i in range(9)],
    lambda pool, limit: None,
    raising,
]


@settings(max_examples=EXAMPLES, deadline=None, database=None, phases=[Phase.generate])  # a seed cannot be shrunk
@given(st.integers(0, 2**64 - 1))
def test_no_component_can_break_a_request(fakes: Any, seed: int) -> None:
    rng = Random(seed)

    def script(table: list[Misdeed]) -> Misdeed:
        """Every other deed is the first of its table, honest work."""
        deeds = cycle([rng.choice([table[0], rng.choice(table)]) for _ in range(rng.randint(1, 4))])
        return lambda *given: next(deeds)(*given)

    class Assembler(fakes.Assembler):
        assemble = staticmethod(script(ASSEMBLIES))

    budget = CostBudget(
        max_tokens=rng.choice([None, rng.randint(0, 60)]),
        max_reranker_docs=rng.choice([None, rng.randint(0, 12)]),
        max_reranker_calls=rng.choice([None, rng.randint(0, 5)]),
        max_expanded_docs=rng.choice([None, rng.randint(0, 4)]),
        max_latency_ms=rng.choice([None, 0.0]),
    )
    rerankers = {
        name: fakes.Reranker(script=[script(SCORES)] * 99, cost=script(PRICES)) for name in ("default", "strong")
    }
    output = fakes.controller(
        documents=[document(f"doc_{i}", 1.0 - i / 10) for i in range(rng.randint(0, 8))],
        estimator=fakes.Estimator(script(VALUES)),
        scheduler=fakes.Scheduler(choose=script(PROPOSALS)),
        reranker=rerankers,
        assembler=Assembler(),
        expander=rng.choice([None, fakes.Expander(script(EXPANSIONS))]),
        budget=budget,
    ).run("query")

    def within(used: float, limit: float | None) -> bool:
        return limit is None or used <= limit

    sent = [batch for reranker in rerankers.values() for batch in reranker.batches]
    account = output.final_budget_state
    assert account["rerank_docs"] == sum(map(len, sent))
    assert account["rerank_calls"] == len(sent)
    assert within(account["rerank_docs"], budget.max_reranker_docs)
    assert within(account["rerank_calls"], budget.max_reranker_calls)
    assert within(account["expanded_docs"], budget.max_expanded_docs)
    last = output.history[-1]
    assert sorted(output.ranking) == sorted(set(last.doc_ids))
    assert ItemState.IN_FLIGHT not in {tuple(ItemState)[code] for code in last.columns.states}
    assert not np.any((last.columns.scores < 0) | (last.columns.scores > 1))
    ids = [doc.id for doc in output.documents]
    assert len(set(ids)) == len(ids)
    assert set(ids) <= set(output.ranking)
    assert within(TOKENS * len(ids), budget.max_tokens)
    output.model_dump_json()
