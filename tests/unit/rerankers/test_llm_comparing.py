"""Permutations of windows and heap sort by a language model."""

import json
from collections.abc import Callable, Sequence
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llm_fakes import FakeService
from llm_server import Chat

from experiments.config.paths import CONF
from ragtune import CostBudget
from ragtune.core.errors import LLMError
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import CostObject, ScoredDocument
from ragtune.llm.prompts import PromptLibrary
from ragtune.rerankers.llm.listwise import LLMListwiseReranker, repaired
from ragtune.rerankers.llm.setwise import LLMSetwiseReranker, most_calls

Asking = Callable[..., SimpleNamespace]
MakeContext = Callable[..., RAGtuneContext]
PROMPTS = PromptLibrary(CONF / "prompts.yaml")


def valued(values: Sequence[int]) -> list[PoolItem]:
    """Documents d0, d1, ... that stand in this order; the text is the value, so that an answer can compare."""
    docs = [ScoredDocument(id=f"d{i}", content=str(v), score=1.0 - i / 100) for i, v in enumerate(values)]
    return [PoolItem.from_document(doc, i, {"original": doc.score}) for i, doc in enumerate(docs)]


def candidates(n: int) -> list[PoolItem]:
    return valued(range(n))


def shown(chat: Chat) -> list[int]:
    return [int(text) for label, text in chat.fenced.items() if label.startswith("document")]


def highest_first(chat: Chat) -> str:
    numbers = shown(chat)
    return json.dumps({"ranking": sorted(range(1, len(numbers) + 1), key=lambda i: -numbers[i - 1])})


def order(scores: dict[str, float]) -> list[str]:
    return sorted(scores, key=lambda doc_id: -scores[doc_id])


def test_the_order_is_the_models_on_the_rank_scale(asking: Asking, make_context: MakeContext) -> None:
    scores = asking(LLMListwiseReranker, '{"ranking": [2, 3, 1]}').reranker.rerank(candidates(3), make_context(), "x")
    assert scores == {"d1": 1 / 2, "d2": 1 / 3, "d0": 1 / 4}


def test_windows_slide_from_the_end_to_the_front_and_carry_the_best(asking: Asking, make_context: MakeContext) -> None:
    made = asking(LLMListwiseReranker, highest_first, window=4, step=2)
    context = make_context()
    scores = made.reranker.rerank(candidates(9), context, "x")
    # By hand, after RankGPT (Sun et al. 2023, figure 2): w = 4, s = 2 over 0 .. 8.
    assert [shown(chat) for chat, _ in made.service.chats] == [[5, 6, 7, 8], [3, 4, 8, 7], [1, 2, 8, 7], [0, 8, 7, 2]]
    assert order(scores) == ["d8", "d7", "d2", "d0", "d1", "d4", "d3", "d6", "d5"]
    assert context.meter.charged.calls == 4


@pytest.mark.parametrize(
    ("said", "order_"),
    [
        ([3, 1], [2, 0, 1]),
        ([2, 2, 2, 1, 3], [1, 0, 2]),
        ([9, 2, 0, -4, 3, 1], [1, 2, 0]),
        ([1], [0, 1, 2]),
        ([], None),
        ([4, 99], None),
    ],
    ids=["missing", "repeated", "foreign", "one", "none", "only foreign"],
)
def test_answers_are_repaired(said: list[int], order_: list[int] | None) -> None:
    assert repaired(said, 3) == order_


@pytest.mark.parametrize("fault", ["server_error", "refusal"])
def test_a_window_without_an_answer_keeps_its_order_and_loses_only_what_no_other_window_shows(
    asking: Asking, make_context: MakeContext, fault: str
) -> None:
    made = asking(LLMListwiseReranker, highest_first, [fault], window=4, step=2)
    context = make_context()
    scores = made.reranker.rerank(candidates(6), context, "x")
    assert order(scores) == ["d3", "d2", "d1", "d0"]
    assert scores["d3"] == 1 / 2
    [event] = context.trace.find("no_judgment")
    assert event.details["doc_ids"] == ["d2", "d3", "d4", "d5"]


def test_a_batch_of_one_is_in_order_and_asks_nothing(asking: Asking, make_context: MakeContext) -> None:
    made = asking(LLMListwiseReranker)
    context = make_context()
    assert made.reranker.rerank(candidates(1), context, "x") == {"d0": 0.5}
    assert made.service.chats == []
    assert context.meter.charged == made.reranker.expected_cost(candidates(1), context) == CostObject(docs=1)


def highest(chat: Chat) -> str:
    numbers = shown(chat)
    return json.dumps({"best": numbers.index(max(numbers)) + 1})


def test_the_heap_asks_what_one_builds_by_hand(asking: Asking, make_context: MakeContext) -> None:
    made = asking(LLMSetwiseReranker, highest, set_size=3, top_k=2)
    context = make_context()
    scores = made.reranker.rerank(valued([1, 2, 3, 4, 5]), context, "x")
    # Build: parent 1 (value 2) with 4 and 5, the root (1) with 5 and 3, then 1 where 5 was, with 4 and 2: 5 is first.
    # The last (2) becomes the root: with 4 and 3, and 4 is second.
    assert [shown(chat) for chat, _ in made.service.chats] == [[2, 4, 5], [1, 5, 3], [1, 4, 2], [2, 4, 3], [2, 1]]
    assert order(scores) == ["d4", "d3", "d0", "d1", "d2"]
    assert list(scores.values()) == [1 / 4, 1 / 5, 1 / 6, 1 / 3, 1 / 2]
    assert context.meter.charged.calls == 5


@given(st.lists(st.integers(0, 999), min_size=2, max_size=24, unique=True), st.integers(2, 6), st.integers(1, 30))
@settings(deadline=None)
def test_the_top_k_is_the_true_top_k_within_the_price(values: list[int], set_size: int, top_k: int) -> None:
    service = FakeService(highest)
    reranker = LLMSetwiseReranker(service.client(), PROMPTS, set_size=set_size, top_k=top_k)
    context = RAGtuneContext(query="q", query_id="q", tracker=CostBudget.unlimited().create_tracker())
    batch = valued(values)
    cost = reranker.expected_cost(batch, context)
    found = order(reranker.rerank(batch, context, "x"))
    by_value = sorted(range(len(values)), key=lambda i: -values[i])
    assert found[:top_k] == [f"d{i}" for i in by_value[:top_k]]
    behind = [f"d{i}" for i in range(len(values)) if i not in by_value[:top_k]]
    assert found[top_k:] == behind
    assert len(service.chats) <= cost.calls == most_calls(len(values), top_k, set_size - 1)
    assert service.billed_tokens == context.meter.charged.tokens <= cost.tokens
    assert context.meter.charged.usd <= cost.usd


def test_a_question_that_comes_again_is_not_asked_again(asking: Asking, make_context: MakeContext) -> None:
    made = asking(LLMSetwiseReranker, highest, set_size=4, top_k=12)
    context = make_context()
    made.reranker.rerank(valued([7, 3, 9, 1, 5, 8, 2, 6, 4, 0]), context, "x")
    asked = [chat.text for chat, _ in made.service.chats]
    assert len(set(asked)) == len(asked) == context.meter.charged.calls


@pytest.mark.parametrize("fault", ["server_error", "refusal"])
def test_without_an_answer_the_parent_stays_and_who_was_never_judged_is_left_out(
    asking: Asking, make_context: MakeContext, fault: str
) -> None:
    made = asking(LLMSetwiseReranker, highest, [fault], set_size=3, top_k=1)
    context = make_context()
    scores = made.reranker.rerank(valued([1, 2, 3, 4, 5]), context, "x")
    assert order(scores) == ["d2", "d0", "d1"]
    [event] = context.trace.find("no_judgment")
    assert event.details["doc_ids"] == ["d1", "d3", "d4"]


@pytest.mark.parametrize("best", [0, -1, 4, 999])
def test_a_number_that_names_no_document_is_no_answer(asking: Asking, make_context: MakeContext, best: int) -> None:
    context = make_context()
    with pytest.raises(LLMError, match="none of 3 documents"):
        asking(LLMSetwiseReranker, f'{{"best": {best}}}').reranker.rerank(valued([1, 2, 3]), context, "x")
    assert f"best={best}" in context.trace.find("no_judgment")[0].details["error"]
