"""Rewrites of the query by a language model."""

from __future__ import annotations

from ragtune.llm.client import LLMClient
from ragtune.llm.prompts import PromptLibrary
from ragtune.reformulators._llm import PromptedReformulator


class LLMReformulator(PromptedReformulator):
    """Asks for m search queries that cover other aspects or synonyms of the user's (rule R4).

    m is the retrieval plan's ``num_reformulations``. The query stands in the prompt literally, as the template has
    it: it is the user's own.
    """

    def __init__(
        self,
        llm: LLMClient,
        prompts: PromptLibrary,
        prompt: str = "reformulation.llm_rewrite",
        max_tokens_each: int = 48,
    ) -> None:
        super().__init__(llm, prompts, prompt, max_tokens_each)

    def _shown(self, query: str) -> str:
        return query
