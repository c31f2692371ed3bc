"""Base of rerankers that ask a language model, the answers that they expect, and the bill of their questions."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, model_validator

from ragtune.core.arguments import check_count
from ragtune.core.errors import CacheMissError, LLMError
from ragtune.core.interfaces import BaseReranker
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.tokens import count_tokens, token_spans
from ragtune.core.types import FREE, CostObject
from ragtune.core.units import SOMETIMES_TOLD
from ragtune.llm.client import LLMClient
from ragtune.llm.errors import AnswerError, ServiceError, no_scores
from ragtune.llm.jsontext import numbers_in
from ragtune.llm.prompts import PromptLibrary, fence, fence_all
from ragtune.llm.types import AnswerLimit, JsonResult, Message, T
from ragtune.rerankers.ordering import in_order

_WRITTEN = re.compile(r"\s*\[?\s*(\d{1,6})\s*\]?\s*")


def _number(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("true and false are no numbers")
    written = _WRITTEN.fullmatch(value) if isinstance(value, str) else None
    return value if written is None else int(written[1])


def _numbers(value: Any) -> Any:
    if isinstance(value, str) and ">" in value:
        return numbers_in(value)
    return [_number(entry) for entry in value] if isinstance(value, list) else value


class WindowRanking(BaseModel):
    """The documents of a window by number, from 1, best first; a bare list of two numbers or more is accepted."""

    model_config = ConfigDict(title="Ranking")

    ranking: Annotated[list[int], BeforeValidator(_numbers)]

    @model_validator(mode="before")
    @classmethod
    def _bare(cls, value: Any) -> Any:
        # One number in brackets is more often a citation than an answer.
        return {"ranking": value} if isinstance(value, list) and len(value) > 1 else value


WindowRanking.__name__ = "Ranking"  # servers see this name and title, and the keys of stored answers contain them


class _OneNumber(BaseModel):
    @model_validator(mode="before")
    @classmethod
    def _bare(cls, value: Any) -> Any:
        return dict.fromkeys(cls.model_fields, value) if type(value) is int else value


class Best(_OneNumber):
    """The number, from 1, of the best document of a set; a bare number is accepted."""

    best: Annotated[int, BeforeValidator(_number)]


class Grade(_OneNumber):
    """A document's grade, 0 (unrelated to the query) to 3 (the exact answer); a bare number is accepted."""

    grade: Annotated[Literal[0, 1, 2, 3], BeforeValidator(_number)]


Conversation = tuple[Message, ...]

Outcome = JsonResult[Any] | LLMError
"""An answer, or the error in its place."""


class Question(NamedTuple):
    """A conversation, and the documents that it shows."""

    conversation: Conversation
    items: Sequence[PoolItem]


class Interview:
    """Asks a batch's questions in the request's time; what was asked before is neither asked nor charged again."""

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
        """Return the outcomes of the questions, in order; the client asks several at once."""
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
        meter = self._context.meter
        if self._estimated:
            self._context.trace.add("reranker", "estimated_usage", calls=self._estimated, tokens=self._charged.tokens)
        meter.charge(self._charged.model_copy(update={"docs": docs}))
        meter.pay(self._paid.model_copy(update={"docs": len(self._paid_docs)}))


class LLMReranker(BaseReranker):
    """Shows a query and shortened documents to a language model; those without a usable answer have no score."""

    shuffled: bool = False  # whether documents are shown in a random order instead of best first

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
        self.facts = replace(
            self.facts,
            has_recorded_times=llm.mode != "live",  # so that a run repeats exactly
            unpriced=frozenset({"latency_ms", *SOMETIMES_TOLD}),  # tokens are counted; a model without a price is free
        )

    def prepare(self) -> None:
        self.llm.prepare()

    def rerank(self, items: Sequence[PoolItem], context: RAGtuneContext, strategy: str) -> dict[str, float]:
        if not items:
            return {}
        limit = AnswerLimit(self.max_answer_tokens, f"max_answer_tokens={self.max_answer_tokens}").within(
            context.tracker, self.llm.price, self.llm.thinking_tokens, lambda: self.expected_cost(items, context).calls
        )
        interview = Interview(self.llm, context.remember(self, dict), context, limit)
        try:
            scores = self._judge(in_order(items, context, self.shuffled), context, interview)
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

    def _shown(self, item: PoolItem) -> str:
        if count_tokens(item.content) < self.max_doc_tokens:
            return item.content
        _, end = next(islice(token_spans(item.content), self.max_doc_tokens - 1, None))
        return item.content[:end]

    def _render(self, query: str, values: Mapping[str, object]) -> Conversation:
        return tuple(self._prompts.render(self.prompt, {"query": fence(query, "query"), **values}))

    def _comparison(self, items: Sequence[PoolItem], context: RAGtuneContext) -> Conversation:
        documents = fence_all([self._shown(item) for item in items], "document")
        return self._render(context.query, {"documents": documents, "n": len(items)})

    def _at_most(self, items: Sequence[PoolItem], context: RAGtuneContext, shown: int, calls: int) -> CostObject:
        """So many comparisons of ``shown`` documents each, at the price of the longest ones."""
        if len(items) < 2:
            return CostObject(docs=len(items))
        longest = sorted(items, key=lambda item: -count_tokens(self._shown(item)))[:shown]
        price = self.llm.expected_cost(self._comparison(longest, context), max_tokens=self.max_answer_tokens)
        times = {unit: amount * calls for unit, amount in price.by_unit().items()}
        return price.model_copy(update=times | {"docs": len(items)})

    def _compared(
        self, items: Sequence[PoolItem], context: RAGtuneContext, interview: Interview, schema: type[T]
    ) -> T | None:
        """The answer on these documents; None, with a note, where there is none."""
        [outcome] = interview.ask([Question(self._comparison(items, context), items)], schema)
        if isinstance(outcome, LLMError):
            self._note(context, items, outcome)
            return None
        return outcome.parsed

    def _note(self, context: RAGtuneContext, items: Sequence[PoolItem], why: LLMError | str) -> None:
        kind = why.kind if isinstance(why, AnswerError | ServiceError) else "useless"
        doc_ids = [item.doc_id for item in items]
        context.trace.add("reranker", "no_judgment", doc_ids=doc_ids, kind=kind, error=str(why))


def together(costs: Sequence[CostObject], slots: int) -> CostObject:
    """Return the cost of calls made ``slots`` at once: the sum, but the time of the busiest slot."""
    free_at = [0.0] * slots
    for cost in costs:
        first = min(range(slots), key=free_at.__getitem__)
        free_at[first] += cost.latency_ms
    return sum(costs, FREE).model_copy(update={"docs": 0, "latency_ms": max(free_at)})
