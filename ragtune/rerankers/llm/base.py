"""Base of rerankers that ask a language model."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice

from ragtune.core.arguments import check_count
from ragtune.core.errors import LLMError
from ragtune.core.interfaces import BaseReranker
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.tokens import count_tokens, token_spans
from ragtune.core.types import CostObject
from ragtune.core.units import SOMETIMES_TOLD
from ragtune.llm.client import LLMClient
from ragtune.llm.errors import AnswerError, ServiceError, no_scores
from ragtune.llm.limits import AnswerLimit
from ragtune.llm.prompts import PromptLibrary, fence, fence_all
from ragtune.rerankers._order import by_standing
from ragtune.rerankers.llm.interview import Conversation, Interview, Outcome


class LLMReranker(BaseReranker):
    """Shows a query and shortened documents to a language model, with every text behind a fence.

    A batch is charged all its documents, and the calls, tokens, time and money of the model's answers, recorded or not.
    The run itself pays for the calls that it sent. Unusable answers are traced and charged; documents without a usable
    answer have no score, and a batch without any usable answer fails. The request's remaining time limits all calls,
    retries included.

    Args:
        llm: client of the language model.
        prompts: library that holds the template.
        prompt: key of the template.
        placeholders: names that the template must have, and no others.
        max_doc_tokens: tokens of a document that are shown, >= 1.
        max_answer_tokens: tokens of an answer without thoughts, >= 1; a longer one is cut off and lost. Thoughts may
            have the client's ``thinking_tokens``, as far as the budget can pay for them.

    Raises:
        ConfigError: on an argument out of range, or a template that is missing or has other placeholders.
    """

    def __init__(
        self,
        llm: LLMClient,
        prompts: PromptLibrary,
        prompt: str,
        placeholders: Sequence[str],
        max_doc_tokens: int,
        max_answer_tokens: int,
    ) -> None:
        prompts.render(prompt, dict.fromkeys(placeholders, ""))
        self.llm = llm
        self.prompt = prompt
        self.max_doc_tokens = check_count("reranker max_doc_tokens", max_doc_tokens, low=1)
        self.max_answer_tokens = check_count("reranker max_answer_tokens", max_answer_tokens, low=1)
        self._prompts = prompts

    @property
    def simulates_time(self) -> bool:
        """True where answers are recorded with their times, so that a run repeats exactly."""
        return self.llm.mode != "live"

    @property
    def unpriced(self) -> frozenset[str]:
        """Time; tokens are counted, and a model without a price is free."""
        return frozenset({"latency_ms", *SOMETIMES_TOLD})

    def prepare(self) -> None:
        self.llm.prepare()

    def rerank(self, items: Sequence[PoolItem], context: RAGtuneContext, strategy: str) -> dict[str, float]:
        """Return the scores of the documents that the model judged.

        Raises:
            LLMError: if it judged none.
            NoVerdictError: if that is because the request's time was over, or nothing was sent.
            CacheMissError: in replay, if a call was never recorded.
        """
        if not items:
            return {}
        calls = partial(self._calls, items, context)
        limit = AnswerLimit(self.max_answer_tokens, f"max_answer_tokens={self.max_answer_tokens}").within(
            context.tracker, self.llm.price, self.llm.thinking_tokens, calls
        )
        interview = Interview(self.llm, self._known(context), context, limit)
        try:
            scores = self._judge(by_standing(items), context, interview)
        finally:
            interview.report(len(items))
        if not scores:
            why = interview.errors[0] if interview.errors else "its answers name none"
            message = f"{self.llm.model} judged none of {len(items)} documents; the first reason: {why}"
            raise no_scores(message, interview.errors)
        return {item.doc_id: scores[item.doc_id] for item in items if item.doc_id in scores}

    @abstractmethod
    def _judge(self, items: Sequence[PoolItem], context: RAGtuneContext, interview: Interview) -> Mapping[str, float]:
        """Scores in [0, 1] of the judged documents; ``items`` are in their current order, best first."""

    def _calls(self, items: Sequence[PoolItem], context: RAGtuneContext) -> int:
        return self.expected_cost(items, context).calls

    def _known(self, context: RAGtuneContext) -> dict[Conversation, Outcome]:
        known: dict[Conversation, Outcome] = context.remember(self, dict)
        return known

    def _shown(self, item: PoolItem) -> str:
        """The shown start of the document."""
        last = next(islice(token_spans(item.content), self.max_doc_tokens - 1, None), None)
        return item.content if last is None else item.content[: last[1]]

    def _render(self, context: RAGtuneContext, values: Mapping[str, object]) -> Conversation:
        return tuple(self._prompts.render(self.prompt, {"query": fence(context.query, "query"), **values}))

    def _comparison(self, items: Sequence[PoolItem], context: RAGtuneContext) -> Conversation:
        """A question about all documents together."""
        documents = fence_all([self._shown(item) for item in items], "document")
        return self._render(context, {"documents": documents, "n": len(items)})

    def _longest(self, items: Sequence[PoolItem], count: int) -> list[PoolItem]:
        """The ``count`` documents with the most shown tokens, the dearest set of that size."""
        return sorted(items, key=lambda item: -count_tokens(self._shown(item)))[:count]

    def _note(self, context: RAGtuneContext, items: Sequence[PoolItem], why: LLMError | str) -> None:
        kind = why.kind if isinstance(why, AnswerError | ServiceError) else "useless"
        doc_ids = [item.doc_id for item in items]
        context.trace.add("reranker", "no_judgment", doc_ids=doc_ids, kind=kind, error=str(why))


def one_after_another(cost: CostObject, times: int, docs: int) -> CostObject:
    """Return the cost of ``times`` calls for ``docs`` documents."""
    return cost.model_copy(update={unit: amount * times for unit, amount in cost.by_unit().items()} | {"docs": docs})
