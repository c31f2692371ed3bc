"""Permutations of windows by a language model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ragtune.core.arguments import check_count, check_flag
from ragtune.core.component import RerankerFacts
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import CostObject
from ragtune.llm.client import LLMClient
from ragtune.llm.prompts import PromptLibrary
from ragtune.rerankers.llm.base import Interview, LLMReranker, WindowRanking
from ragtune.rerankers.ordering import rank_scores


class LLMListwiseReranker(LLMReranker):
    """RankGPT: the model orders a window that slides from the end of the batch to its front (Sun et al., EMNLP 2023).

    Missing documents of an answer follow in their order. Scores are 1 / (1 + r): use batches as large as the budget.
    """

    facts = RerankerFacts(compares=True)

    def __init__(
        self,
        llm: LLMClient,
        prompts: PromptLibrary,
        prompt: str = "reranking.llm_listwise",
        window: int = 20,
        step: int = 10,
        max_doc_tokens: int = 300,
        max_answer_tokens: int | None = None,
        shuffled: bool = False,
    ) -> None:
        self.window = check_count("reranker window", window, low=2)
        self.step = check_count("reranker step", step, low=1, high=self.window - 1)
        self.shuffled = check_flag("reranker shuffled", shuffled)
        answer = 16 + 4 * window if max_answer_tokens is None else max_answer_tokens
        super().__init__(llm, prompts, prompt, ("query", "documents", "n"), max_doc_tokens, answer)

    def expected_cost(self, items: Sequence[PoolItem], context: RAGtuneContext) -> CostObject:
        """Every window at the price of the longest documents."""
        return self._at_most(items, context, self.window, len(self._starts(len(items))))

    def _judge(self, items: Sequence[PoolItem], context: RAGtuneContext, interview: Interview) -> Mapping[str, float]:
        if len(items) < 2:
            return rank_scores(items)
        order = list(items)
        judged: set[str] = set()
        for start in self._starts(len(order)):
            window = order[start : start + self.window]
            ranked = self._ranked(window, context, interview)
            if ranked is not None:
                order[start : start + self.window] = ranked
                judged.update(item.doc_id for item in ranked)
        return rank_scores([item for item in order if item.doc_id in judged])

    def _starts(self, n: int) -> list[int]:
        """Starts of the windows, from the last to the first, which is 0."""
        return [*range(n - self.window, 0, -self.step), 0]

    def _ranked(
        self, window: Sequence[PoolItem], context: RAGtuneContext, interview: Interview
    ) -> list[PoolItem] | None:
        answer = self._compared(window, context, interview, WindowRanking)
        if answer is None:
            return None
        numbers = answer.ranking
        if sorted(numbers) == list(range(len(window))):
            context.trace.add("reranker", "counted_from_zero", doc_ids=[item.doc_id for item in window])
            return [window[position] for position in numbers]
        positions = repaired(numbers, len(window))
        if positions is None:
            self._note(context, window, f"no number from 1 to {len(window)} in the ranking")
            return None
        return [window[position] for position in positions]


def repaired(ranking: Sequence[int], n: int) -> list[int] | None:
    """Return all positions, first those that the numbers (from 1) name, in order; None if the numbers name none."""
    named = list(dict.fromkeys(number - 1 for number in ranking if 1 <= number <= n))
    if not named:
        return None
    known = set(named)
    return named + [position for position in range(n) if position not in known]
