"""Budgets hold for rerankers that ask a language model: through the real loop, whatever the model says."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llm_fakes import FakeService
from llm_server import Chat

from experiments.config.paths import CONF
from ragtune import CostBudget
from ragtune.core.types import UNLIMITED, CostObject, ScoredDocument
from ragtune.llm.prompts import PromptLibrary
from ragtune.rerankers.llm.listwise import LLMListwiseReranker
from ragtune.rerankers.llm.pointwise import LLMPointwiseReranker
from ragtune.rerankers.llm.setwise import LLMSetwiseReranker
from ragtune.schedulers.greedy import GreedyScheduler

PROMPTS = PromptLibrary(CONF / "prompts.yaml")
KINDS: dict[str, Any] = {
    "pointwise": lambda client: LLMPointwiseReranker(client, PROMPTS, max_doc_tokens=20),
    "listwise": lambda client: LLMListwiseReranker(client, PROMPTS, window=4, step=2, max_doc_tokens=20),
    "setwise": lambda client: LLMSetwiseReranker(client, PROMPTS, set_size=3, top_k=3, max_doc_tokens=20),
}
FAULTS = ["server_error", "cut_off", "malformed_json", "wrong_enum", "wrong_count", "refusal", "empty"]
WORDS = ["heart", "blood", "salt", "ship", "rope", "bread", "(tea)", "star!"]

documents = st.lists(st.lists(st.sampled_from(WORDS), max_size=30), min_size=1, max_size=9)
faults = st.lists(st.sampled_from([None, None, *FAULTS]), max_size=20)
limits = st.fixed_dictionaries(
    {
        "max_tokens": st.none() | st.integers(0, 12_000),
        "assembly_token_buffer": st.integers(0, 1000),
        "max_reranker_docs": st.none() | st.integers(0, 9),
        "max_reranker_calls": st.none() | st.integers(0, 20),
        "max_cost_usd": st.none() | st.floats(0.0, 0.05),
        "charge_failures": st.booleans(),
    }
)


def run(fakes: Any, kind: str, texts: Any, service: FakeService, batch: int, thinking: int, **given_: Any) -> Any:
    docs = [
        ScoredDocument(id=f"d{i}", content=" ".join(words), score=1.0 - i / 100, token_count=len(words))
        for i, words in enumerate(texts)
    ]
    budget = CostBudget.only(**given_)
    parts = {"scheduler": GreedyScheduler(batch), "budget": budget, "documents": docs}
    output = fakes.controller(reranker=KINDS[kind](service.client(thinking_tokens=thinking)), **parts).run(
        "heart and salt"
    )
    return SimpleNamespace(output=output, budget=budget, spent=output.history[-1].cost, service=service)


def check_account(ran: SimpleNamespace) -> None:
    """Every answer is charged once, and given back once if its batch failed and failures are free."""
    trace = ran.output.trace
    refunded = [CostObject(**event.details["wasted"]) for event in trace.find("refund_rerank")]
    assert ran.spent.tokens + sum(cost.tokens for cost in refunded) == ran.service.billed_tokens
    booked = ran.spent.calls + sum(cost.calls for cost in refunded)
    # A batch is a call at least, even if all that it would ask is known already.
    assert ran.service.calls <= booked <= ran.service.calls + ran.output.batches.sent
    assert ran.output.actual_cost.tokens == ran.service.billed_tokens
    assert not (refunded and ran.budget.charge_failures)
    assert ran.output.stop.reason


def allowed(ran: SimpleNamespace) -> dict[str, float]:
    budget = ran.budget
    tokens = UNLIMITED if budget.max_tokens is None else max(0, budget.max_tokens - budget.tokens_for_assembly)
    caps = {"docs": budget.max_reranker_docs, "calls": budget.max_reranker_calls, "usd": budget.max_cost_usd}
    return {"tokens": tokens, **{unit: UNLIMITED if cap is None else cap for unit, cap in caps.items()}}


@pytest.mark.parametrize("kind", KINDS)
@given(
    texts=documents, plan=faults, given_=limits, batch=st.integers(1, 9), long=st.just(0) | st.integers(0, 400),
    thinking=st.sampled_from([100, 4096]), thoughts=st.just(0) | st.integers(0, 400),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_nothing_is_overspent_and_where_a_service_bills_more_than_expected_the_overrun_is_traced(
    fakes: Any,
    kind: str,
    texts: Any,
    plan: list[str | None],
    given_: dict[str, Any],
    batch: int,
    long: int,
    thinking: int,
    thoughts: int,
) -> None:
    def chatty(chat: Chat) -> str:
        return f"{'hm ' * thoughts}</think>" * bool(thoughts) + json.dumps({"grade": 2, "ranking": [1], "best": 1})

    service = FakeService(chatty, plan)
    extra = iter([long] * 10_000)
    honest = service._post

    def post(call: Any, body: Any, parse: Any, deadline: Any) -> Any:
        def more(reply: Any) -> Any:
            hidden = next(extra)  # e.g. reasoning, which is billed and not shown
            reply["usage"]["completion_tokens"] += hidden
            service.billed_tokens += hidden
            return parse(reply)

        return honest(call, body, more)

    service._post = post  # type: ignore[method-assign]
    ran = run(fakes, kind, texts, service, batch, thinking, **given_)
    check_account(ran)
    over = [unit for unit, limit in allowed(ran).items() if getattr(ran.spent, unit) > limit + 1e-9]
    assert long or not over
    if over:
        assert ran.output.trace.find("overrun_rerank")
        assert ran.output.stop.reason in ("budget_exhausted", "budget_denied", "pool_exhausted")
