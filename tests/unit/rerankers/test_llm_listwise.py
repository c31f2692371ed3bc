"""Permutations by a language model."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from llm_server import Chat

from ragtune.core.errors import ConfigError, LLMError
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import CostObject, ScoredDocument
from ragtune.rerankers.llm.listwise import LLMListwiseReranker, repaired

Asking = Callable[..., SimpleNamespace]
MakeContext = Callable[..., RAGtuneContext]


def candidates(n: int) -> list[PoolItem]:
    """Documents ``0`` (first by standing) to ``n - 1``; the text is the number, so that an answer can sort by it."""
    docs = [ScoredDocument(id=f"d{i}", content=str(i), score=1.0 - i / 100) for i in range(n)]
    return [PoolItem.from_document(doc, i, {"original": doc.score}) for i, doc in enumerate(docs)]


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


def test_the_batch_is_taken_as_it_stands_whatever_its_order(asking: Asking, make_context: MakeContext) -> None:
    made = asking(LLMListwiseReranker, highest_first)
    made.reranker.rerank(candidates(4)[::-1], make_context(), "x")
    assert shown(made.service.chats[0][0]) == [0, 1, 2, 3]


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


def test_an_answer_that_counts_from_zero_is_read_so_and_noted(asking: Asking, make_context: MakeContext) -> None:
    context = make_context()
    reranker = asking(LLMListwiseReranker, '{"ranking": [3, 0, 2, 1]}').reranker
    assert order(reranker.rerank(candidates(4), context, "x")) == ["d3", "d0", "d2", "d1"]
    [event] = context.trace.find("counted_from_zero", "reranker")
    assert event.details["doc_ids"] == ["d0", "d1", "d2", "d3"]


@pytest.mark.parametrize("said", [[0, 4, 2, 1], [0, 2, 1], [0, 0, 1, 2], [4, 3, 2, 1]])
def test_numbers_count_from_one_where_they_may(asking: Asking, make_context: MakeContext, said: list[int]) -> None:
    context = make_context()
    reranker = asking(LLMListwiseReranker, json.dumps({"ranking": said})).reranker
    named = list(dict.fromkeys(f"d{number - 1}" for number in said if number))
    assert order(reranker.rerank(candidates(4), context, "x"))[: len(named)] == named
    assert not context.trace.find("counted_from_zero")


@pytest.mark.parametrize("fault", ["server_error", "cut_off", "malformed_json", "wrong_enum", "refusal", "empty"])
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


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"window": 1}, "window=1"),
        ({"step": 0}, "step=0"),
        ({"window": 5, "step": 5}, "step=5.*window=5"),
        ({"max_answer_tokens": 0}, "max_answer_tokens=0"),
    ],
)
def test_bad_arguments_are_refused_by_quoting_them(asking: Asking, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        asking(LLMListwiseReranker, **options)


@pytest.mark.parametrize("fault", ["server_error", "refusal"])
def test_a_window_that_failed_has_failed_for_the_whole_request(
    asking: Asking, make_context: MakeContext, fault: str
) -> None:
    made = asking(LLMListwiseReranker, highest_first, faults=[fault])
    context = make_context()
    errors = []
    for _ in range(2):  # else the record, which holds a call once, would replay otherwise
        with pytest.raises(LLMError, match="judged none of 4") as raised:
            made.reranker.rerank(candidates(4), context, "x")
        errors.append(str(raised.value))
    assert errors[0] == errors[1]
    assert order(made.reranker.rerank(candidates(3), context, "x")) == ["d2", "d1", "d0"]
    assert made.service.calls == 2
