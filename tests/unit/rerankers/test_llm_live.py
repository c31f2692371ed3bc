"""Rerankers that ask a real server: time, and what a batch is charged, whatever became of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from llm_server import Fault

from ragtune import CostBudget
from ragtune.core.errors import InconclusiveError, LLMError
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.clock import VirtualClock
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import ScoredDocument
from ragtune.llm.client import LLMClient
from ragtune.llm.prompts import PromptLibrary
from ragtune.rerankers.llm.listwise import LLMListwiseReranker
from ragtune.rerankers.llm.pointwise import LLMPointwiseReranker
from ragtune.rerankers.llm.setwise import LLMSetwiseReranker

MakeContext = Callable[..., RAGtuneContext]
PRICES = {"test": {"prompt": 1.0, "completion": 10.0}}


def items(n: int) -> list[PoolItem]:
    docs = [ScoredDocument(id=f"d{i}", content=f"text {i}", score=1.0 - i / 100) for i in range(n)]
    return [PoolItem.from_document(doc, i, {"original": doc.score}) for i, doc in enumerate(docs)]


def limited(make_context: MakeContext, ms: float) -> RAGtuneContext:
    budget = CostBudget.only(max_latency_ms=ms)
    return make_context(tracker=budget.create_tracker(clock=VirtualClock()))


@pytest.mark.parametrize(
    ("kind", "options", "left"),
    [
        (LLMPointwiseReranker, {}, [1000.0] * 4),  # all of them at the same time
        (LLMListwiseReranker, {"window": 2, "step": 1}, [1000.0, 990.0, 980.0]),
        (LLMSetwiseReranker, {"set_size": 4}, [1000.0, 990.0, 980.0]),
    ],
)
def test_every_call_has_what_the_request_and_the_batch_so_far_have_left(
    asking: Any, make_context: MakeContext, kind: Any, options: dict[str, Any], left: list[float]
) -> None:
    made = asking(kind, llm={"clock": VirtualClock(), "concurrency": 4}, **options)
    made.reranker.rerank(items(4), limited(make_context, 1000.0), "x")
    assert made.service.deadlines_ms[: len(left)] == left


@pytest.fixture
def live(llm_server: Any, prompts: PromptLibrary) -> Callable[..., LLMPointwiseReranker]:
    """Makes pointwise rerankers of the server that do not wait for retries."""

    def make(**options: Any) -> LLMPointwiseReranker:
        defaults = {"model": "test", "base_url": llm_server.url, "mode": "live", "prices": PRICES, "concurrency": 1}
        return LLMPointwiseReranker(LLMClient(**(defaults | {"backoff_initial_s": 0.0} | options)), prompts)

    return make


def test_a_batch_without_enough_time_for_any_answer_tells_nothing_of_the_model(
    llm_server: Any, live: Any, make_context: MakeContext
) -> None:
    reranker = live()
    reranker.prepare()
    llm_server.faults += [Fault("drip")] * 9
    with pytest.raises(InconclusiveError, match="judged none of 2 documents"):
        reranker.rerank(items(2), limited(make_context, 100.0), "x")


@pytest.mark.parametrize("fault", ["no_choices", "refusal", "cut_off", "malformed_json"])
def test_a_batch_that_fails_as_a_whole_is_charged_what_the_server_reported(
    llm_server: Any, live: Any, make_context: MakeContext, fault: str
) -> None:
    llm_server.faults += [Fault(fault)] * 99
    context = make_context()
    with pytest.raises(LLMError, match=r"test judged none of 3 documents; the first reason: .*(test|127\.0\.0\.1)"):
        live(max_retries=1, breaker_failures=99).rerank(items(3), context, "x")
    billed = llm_server.billed
    assert len(billed) == (6 if fault == "no_choices" else 3)
    assert context.meter.charged is not None
    assert context.meter.charged.tokens == context.meter.actual.tokens == llm_server.billed_tokens > 0
    dollars = sum(request.prompt_tokens + 10 * request.completion_tokens for request in billed) / 1000
    assert context.meter.charged.usd == pytest.approx(dollars)
