"""Hypothetical passages in place of the query."""

from __future__ import annotations

from ragtune.llm.client import LLMClient
from ragtune.llm.prompts import PromptLibrary, fence
from ragtune.reformulators._llm import PromptedReformulator


class HydeReformulator(PromptedReformulator):
    """HyDE: a passage that would answer the query finds passages that do (Gao, Ma, Lin and Callan, ACL 2023).

    Every passage is a retrieval round of its own, with any retriever. Difference: the paper averages the vectors of
    the passages and the query's into one dense query; here their results are united (rule R1).
    """

    def __init__(
        self,
        llm: LLMClient,
        prompts: PromptLibrary,
        prompt: str = "reformulation.hyde",
        max_tokens_each: int = 192,
    ) -> None:
        super().__init__(llm, prompts, prompt, max_tokens_each)

    def _shown(self, query: str) -> str:
        return fence(query, "query")
