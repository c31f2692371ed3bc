"""One grade a document by a language model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from ragtune.core.arguments import check_number
from ragtune.core.errors import ConfigError, LLMError
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import CostObject
from ragtune.llm.client import LLMClient
from ragtune.llm.prompts import PromptLibrary, fence
from ragtune.rerankers.llm.base import Conversation, Grade, Interview, LLMReranker, Question, together

GRADES = 4


class LLMPointwiseReranker(LLMReranker):
    """A call a document grades it 0 to 3 (Thomas et al., SIGIR 2024); score grade / 3 (Zhuang et al., NAACL 2024)."""

    def __init__(
        self,
        llm: LLMClient,
        prompts: PromptLibrary,
        prompt: str = "reranking.llm_pointwise",
        max_doc_tokens: int = 300,
        max_answer_tokens: int = 32,
        calibration: Sequence[float] | None = None,
    ) -> None:
        super().__init__(llm, prompts, prompt, ("query", "document"), max_doc_tokens, max_answer_tokens)
        self.calibration = _calibration(calibration)

    def expected_cost(self, items: Sequence[PoolItem], context: RAGtuneContext) -> CostObject:
        """A full answer on every text."""
        prices = [self._price(context.query, text) for text in dict.fromkeys(map(self._shown, items))]
        return together(prices, self.llm.concurrency).model_copy(update={"docs": len(items)})

    def _judge(self, items: Sequence[PoolItem], context: RAGtuneContext, interview: Interview) -> Mapping[str, float]:
        questions = [Question(self._conversation(context.query, self._shown(item)), [item]) for item in items]
        outcomes = interview.ask(questions, Grade)
        scores = {}
        for item, outcome in zip(items, outcomes, strict=True):
            if isinstance(outcome, LLMError):
                self._note(context, [item], outcome)
            else:
                scores[item.doc_id] = self.calibration[outcome.parsed.grade]
        return scores

    @lru_cache(maxsize=4096)  # noqa: B019 -- of recent texts: the size of a batch is found by pricing several
    def _price(self, query: str, text: str) -> CostObject:
        return self.llm.expected_cost(self._conversation(query, text), max_tokens=self.max_answer_tokens)

    def _conversation(self, query: str, text: str) -> Conversation:
        return self._render(query, {"document": fence(text, "document")})


def _calibration(scores: Sequence[float] | None) -> tuple[float, ...]:
    if scores is None:
        return tuple(grade / (GRADES - 1) for grade in range(GRADES))
    checked = [check_number("reranker calibration", score, 0.0, 1.0) for score in scores]
    if len(checked) != GRADES or checked != sorted(checked):
        raise ConfigError(f"reranker calibration={scores!r}: allowed are four numbers that do not fall, one a grade")
    return tuple(checked)
