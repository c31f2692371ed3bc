"""The questions of a batch to a language model, and their bill."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ragtune.core.errors import CacheMissError, LLMError
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import FREE, CostObject
from ragtune.llm.client import LLMClient
from ragtune.llm.limits import AnswerLimit
from ragtune.llm.types import JsonResult, Message, T

Conversation = tuple[Message, ...]

Outcome = JsonResult[Any] | LLMError
"""An answer, or the error in its place."""


class Question(NamedTuple):
    """A conversation, and the documents that it shows."""

    conversation: Conversation
    items: Sequence[PoolItem]


class Interview:
    """Asks the questions of one batch within the request's remaining time. A question that the request has asked before
    is neither asked nor charged again.

    Args:
        llm: client of the language model.
        known: outcomes of the whole request by conversation; new ones are added.
        context: the request.
        limit: how long each answer may be.

    Attributes:
        errors: errors in place of answers, in order.
    """

    def __init__(
        self, llm: LLMClient, known: dict[Conversation, Outcome], context: RAGtuneContext, limit: AnswerLimit
    ) -> None:
        self.errors: list[LLMError] = []
        self._llm = llm
        self._known = known
        self._context = context
        self._limit = limit
        self._left_ms = context.time_left_ms
        self._charged = self._paid = CostObject()
        self._paid_docs: set[str] = set()
        self._estimated = 0

    def ask(self, questions: Sequence[Question], schema: type[T]) -> list[JsonResult[T] | LLMError]:
        """Return the outcomes of the questions, in order; the client asks several at once.

        Raises:
            CacheMissError: in replay, if a call was never recorded.
        """
        new = {c: items for c, items in questions if c not in self._known}
        within_ms = min(self._left_ms - self._charged.latency_ms, self._context.time_left_ms)
        outcomes = self._llm.chat_json_many(list(new), schema, max_tokens=self._limit, within_ms=within_ms)
        paid = [LLMClient.paid(outcome) for outcome in outcomes]
        self._charged += together([LLMClient.cost(outcome) for outcome in outcomes], self._llm.concurrency)
        self._paid += together(paid, self._llm.concurrency)
        for items, cost in zip(new.values(), paid, strict=True):
            self._paid_docs.update(item.doc_id for item in items if cost.calls)
        self._estimated += sum(map(self._llm.is_estimated, outcomes))
        for outcome in outcomes:
            if isinstance(outcome, CacheMissError):
                raise outcome
        self._known.update(zip(new, outcomes, strict=True))
        told = [self._known[question.conversation] for question in questions]
        self.errors += [each for each in told if isinstance(each, LLMError)]
        return told

    def report(self, docs: int) -> None:
        """Report the bill of a batch of ``docs`` documents to the request's meter."""
        meter = self._context.meter
        if self._estimated:
            self._context.trace.add("reranker", "estimated_usage", calls=self._estimated, tokens=self._charged.tokens)
        meter.charge(self._charged.model_copy(update={"docs": docs}))
        meter.pay(self._paid.model_copy(update={"docs": len(self._paid_docs)}))


def together(costs: Sequence[CostObject], slots: int) -> CostObject:
    """Return the cost of calls made ``slots`` at once: the sum, but the time is that of the busiest slot.

    Each call takes the slot that is free first, in order, as threads do, so the same times give the same sum.
    """
    free_at = [0.0] * slots
    for cost in costs:
        first = min(range(slots), key=free_at.__getitem__)
        free_at[first] += cost.latency_ms
    return sum(costs, FREE).model_copy(update={"docs": 0, "latency_ms": max(free_at)})
