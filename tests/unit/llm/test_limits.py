"""Room for the thoughts of reasoning models: there by default, within the budget, and named where it is too small."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from llm_fakes import FakeService

from experiments.config.paths import CONF
from ragtune import BudgetedReranker, CostBudget
from ragtune.core.errors import LLMError
from ragtune.core.request.context import CostMeter, RAGtuneContext
from ragtune.llm.client import LLMClient
from ragtune.llm.prompts import PromptLibrary
from ragtune.reformulators.llm_rewrite import LLMReformulator
from ragtune.rerankers.llm.listwise import LLMListwiseReranker
from ragtune.rerankers.llm.pointwise import LLMPointwiseReranker
from ragtune.rerankers.llm.setwise import LLMSetwiseReranker
from ragtune.superprompt.agents.chooser import Chooser, ChooserConfig

PROMPTS = PromptLibrary(CONF / "prompts.yaml")
TEXTS = ["bread", "tea", "ships", "a tea plant"]
ANSWER = {"ranking": [4, 2, 1, 3], "best": 1, "grade": 2, "title": "tea"}
LIMITS = {"max_input_tokens": 500, "max_part_tokens": 100, "max_item_tokens": 50}
AGENT = {
    **LIMITS,
    "agent_name": "Tester",
    "version": "v1",
    "prompt": {"system": "Be good.", "user": "{payload}\n{choices}\n{answer}"},
    "fields": {"title": {"enum": ["tea", "draft"], "default": "draft"}},
}


def rewritten(kind: Any) -> Callable[..., Any]:
    def ask(client: LLMClient, budget: CostBudget | None = None, **options: int) -> list[str]:
        tracker = (budget or CostBudget.unlimited()).create_tracker()
        context = RAGtuneContext(query="tea", query_id="q", tracker=tracker, num_reformulations=1)
        found: list[str] = kind(client, PROMPTS, **options).generate(context, [])
        return found

    return ask


def chosen(client: LLMClient, max_output_tokens: int = 99) -> Any:
    agent = Chooser(ChooserConfig.model_validate({**AGENT, "max_output_tokens": max_output_tokens}), client)
    return agent.choose({"text": "tea"}, CostMeter()).fields["title"].value


def reranked(kind: Any) -> Callable[..., Any]:
    def ask(client: LLMClient, **options: int) -> list[int]:
        ranking = BudgetedReranker(kind(client, PROMPTS, **options), docs=4, policy="fixed_depth").rank("tea", TEXTS)
        if ranking.warnings:
            raise LLMError(ranking.warnings[0])
        return [one.index for one in ranking]

    return ask


# Who asks, and the option that limits its answers.
WHO: dict[str, tuple[Callable[..., Any], str]] = {
    "listwise": (reranked(LLMListwiseReranker), "max_answer_tokens"),
    "setwise": (reranked(LLMSetwiseReranker), "max_answer_tokens"),
    "pointwise": (reranked(LLMPointwiseReranker), "max_answer_tokens"),
    "rewriting": (rewritten(LLMReformulator), "max_tokens_each"),
    "agent": (chosen, "max_output_tokens"),
}


def thinker(who: str, tokens: int) -> FakeService:
    answer = ["green tea"] if who == "rewriting" else ANSWER
    draft = ["draft"] if who == "rewriting" else {"ranking": [1], "best": 2, "grade": 0, "title": "draft"}
    return FakeService(lambda chat: f"{json.dumps(draft)}{' hm' * tokens}</think>{json.dumps(answer)}")


@pytest.mark.parametrize("who", WHO)
def test_a_reasoning_model_has_room_to_think_by_default(who: str) -> None:
    ask, _ = WHO[who]
    found = ask(thinker(who, 3500).client())
    assert found == ask(thinker(who, 0).client())
    assert "draft" not in str(found)


@pytest.mark.parametrize("who", WHO)
def test_an_answer_that_is_cut_off_names_the_options_that_change_the_request(who: str) -> None:
    ask, option = WHO[who]
    service = thinker(who, 9000)
    with pytest.raises(LLMError, match="was cut off after") as caught:
        ask(service.client(max_tokens=8192))
    found = re.search(r"raise .*?(\w+)=\d+, or thinking_tokens=4096 of the language model", str(caught.value))
    assert found[1] == option
    assert ask(service.client(thinking_tokens=10_000)) == ask(service.client(), **{option: 10_000})


@pytest.mark.parametrize("finish", ["length", "stop"])
def test_thoughts_that_used_up_the_limit_are_told_however_the_server_calls_it(llm_server: Any, finish: str) -> None:
    def thoughts(whole: Any) -> Any:
        message = {"role": "assistant", "content": None, "reasoning_content": json.dumps(ANSWER)}
        return whole | {"choices": [{"index": 0, "finish_reason": finish, "message": message}]}

    llm_server.alter = thoughts
    client = LLMClient(model="test", base_url=llm_server.url, mode="live")
    with pytest.raises(LLMError, match=r"tokens[:;].* raise max_answer_tokens=32, or thinking_tokens=4096"):
        reranked(LLMPointwiseReranker)(client)
