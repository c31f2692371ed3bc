"""Rewrites of the query, or passages that would answer it, by a language model."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import RootModel

from ragtune.core.arguments import check_count, check_flag
from ragtune.core.errors import LLMError
from ragtune.core.interfaces import BaseReformulator
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.rounds import distinct_rewrites
from ragtune.core.types import FREE, CostObject, ScoredDocument
from ragtune.llm.client import LLMClient
from ragtune.llm.prompts import PromptLibrary, fence
from ragtune.llm.types import AnswerLimit, ChatResult, Message

_OVERHEAD_TOKENS = 16  # brackets, quotes and commas of the list, and a code fence around it


class LLMReformulator(BaseReformulator):
    """Asks a language model for a JSON list of texts in one call: search queries (rule R4), or HyDE's passages.

    Every text is a retrieval round of its own, with any retriever; the retrieval plan's ``num_reformulations`` are
    asked for. Tokens, time and money are charged (rule B9). What is left of the request's time is the deadline of the
    call, with retries.

    HyDE (Gao, Ma, Lin and Callan, ACL 2023): a passage that would answer the query finds passages that do. Difference:
    the paper averages the vectors of the passages and the query's into one dense query; here their results are united
    (rule R1).
    """

    def __init__(
        self,
        llm: LLMClient,
        prompts: PromptLibrary,
        prompt: str = "reformulation.llm_rewrite",
        max_tokens_each: int = 48,
        fenced: bool = False,
    ) -> None:
        prompts.render(prompt, dict.fromkeys(("query", "m"), ""))
        self.llm = llm
        self.prompt = prompt
        self.max_tokens_each = check_count("reformulator max_tokens_each", max_tokens_each, low=1)
        self.fenced = check_flag("reformulator fenced", fenced)
        self._prompts = prompts

    def prepare(self) -> None:
        self.llm.prepare()

    def generate(self, context: RAGtuneContext, first_round: Sequence[ScoredDocument]) -> list[str]:
        """At most ``context.num_reformulations`` texts, none of them blank, the query or another one again."""
        if self._has_nothing_to_ask(context):
            return []
        limit = AnswerLimit(self._answer_tokens(context), f"max_tokens_each={self.max_tokens_each}").within(
            context.tracker, self.llm.price, self.llm.thinking_tokens, lambda: 1
        )
        try:
            result = self.llm.chat_json(
                self._messages(context), RootModel[list[str]], max_tokens=limit, within_ms=context.time_left_ms
            )
        except LLMError as error:
            _bill(context, error)
            raise
        _bill(context, result)
        return distinct_rewrites(result.parsed.root, context.query)[: context.num_reformulations]

    def expected_cost(self, context: RAGtuneContext, first_round: Sequence[ScoredDocument]) -> CostObject:
        if self._has_nothing_to_ask(context):
            return FREE
        return self.llm.expected_cost(self._messages(context), max_tokens=self._answer_tokens(context))

    def _has_nothing_to_ask(self, context: RAGtuneContext) -> bool:
        return not context.query.strip() or context.num_reformulations == 0

    def _messages(self, context: RAGtuneContext) -> list[Message]:
        shown = fence(context.query, "query") if self.fenced else context.query
        return self._prompts.render(self.prompt, {"query": shown, "m": context.num_reformulations})

    def _answer_tokens(self, context: RAGtuneContext) -> int:
        return _OVERHEAD_TOKENS + context.num_reformulations * self.max_tokens_each


def _bill(context: RAGtuneContext, outcome: ChatResult | LLMError) -> None:
    context.meter.charge(LLMClient.cost(outcome))
    context.meter.pay(LLMClient.paid(outcome))
    if LLMClient.is_estimated(outcome):
        context.trace.add("reformulator", "estimated_usage", calls=1, tokens=LLMClient.cost(outcome).tokens)
