"""Data contracts that cross component boundaries (rule P8)."""

from __future__ import annotations

import sys
from bisect import bisect
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, NamedTuple, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WrapSerializer, field_serializer, model_serializer

from ragtune.core.plain import plain
from ragtune.core.units import NAMES, SOMETIMES_TOLD

UNLIMITED = sys.maxsize
"""What an unlimited unit shows in :class:`RemainingBudgetView`: an int, so that ``min`` and slices work."""


BUDGET_EXHAUSTED, STRATEGY_CLOSED = "budget_exhausted", "strategy_closed"
"""Reasons to stop that a scheduler and the loop both may find."""

UNANSWERED = "unanswered"
"""Action of a trace event: attempts got no whole answer, and its ``cost`` is what their service may bill."""

POLICY_FAILED = frozenset({"estimator_failed", "scheduler_failed", "illegal_proposal"})
"""Reasons to stop that a defect of the policy has brought."""

GIVEN_UP = POLICY_FAILED | {STRATEGY_CLOSED}
"""Reasons to stop that say nothing of what the policy is worth."""


class ScoredDocument(BaseModel):
    """A document with its scores: what retrievers return and what the controller hands back.

    Attributes:
        id: stable document id.
        content: the text that rerankers read (title and body).
        metadata: whatever the source knows about the document.
        score: the current active score; from a retriever, on the retriever's own scale.
        original_score: the first stage's score.
        reranker_score: calibrated relevance in [0, 1], where the document was reranked.
        fusion_score: the score of the fusion that merged several lists, where one did.
        token_count: tokens of ``content`` by the corpus's token counter.
        sources: first-stage scores by source name, for lists that merge several sources.

    Examples:
        >>> from ragtune import ScoredDocument
        >>> ScoredDocument(id="d1", content="green tea", score=7.4).score
        7.4
    """

    id: str
    content: str = ""
    metadata: dict[str, Any] = Field(default_factory=dict)
    score: float = 0.0
    original_score: float = 0.0
    reranker_score: float | None = None
    fusion_score: float | None = None
    token_count: int = 0
    sources: dict[str, float] = Field(default_factory=dict)

    model_config = ConfigDict(frozen=True)

    @field_serializer("metadata", when_used="json")
    def _plain_metadata(self, metadata: dict[str, Any]) -> dict[str, Any]:
        plainly: dict[str, Any] = plain(metadata)
        return plainly

    def __hash__(self) -> int:
        return hash((self.id, self.score, self.reranker_score))


Listed = Annotated[
    Sequence[ScoredDocument],
    BeforeValidator(lambda found: list(found) if isinstance(found, Iterable) and not isinstance(found, str) else found),
    WrapSerializer(lambda found, handler: handler(list(found))),
]
"""Documents that may be held as columns, see :class:`ragtune.core.hits.Hits`; outside, they are a list."""


class ReformulationResult(BaseModel):
    """Output of one retrieval round (rule P8); ``strategy`` is its name (``original``, ``rewrite_0``).

    ``signals`` are names of sources that mean the same in every round.

    Examples:
        >>> from ragtune.core.types import ReformulationResult
        >>> ReformulationResult(original_query="tea", reformulated_query="green tea").strategy
        'identity'
    """

    original_query: str
    reformulated_query: str
    strategy: str = "identity"
    candidates: Listed = Field(default_factory=list)
    signals: frozenset[str] = frozenset()

    model_config = ConfigDict(frozen=True)


class CostObject(BaseModel):
    """A cost in every unit that a budget limits (rule B1).

    Attributes:
        tokens: tokens read or written by a model.
        docs: documents reranked.
        calls: reranker calls (one batch is one call unless the reranker says otherwise).
        latency_ms: milliseconds.
        usd: money, US dollars.
        flops: floating-point operations of the model; 0 where its size is not known.
        search_units: blocks of documents that a service bills; 0 where it bills none.
        joules: energy that the machine has measured; 0 where it was not.

    Examples:
        >>> from ragtune.core.types import CostObject
        >>> total = CostObject(docs=5, calls=1) + CostObject(docs=3, calls=1, usd=0.002)
        >>> total.docs, total.calls, total.usd
        (8, 2, 0.002)
    """

    tokens: int = Field(default=0, ge=0)
    docs: int = Field(default=0, ge=0)
    calls: int = Field(default=0, ge=0)
    latency_ms: float = Field(default=0.0, ge=0.0, allow_inf_nan=False)
    usd: float = Field(default=0.0, ge=0.0, allow_inf_nan=False)
    flops: float = Field(default=0.0, ge=0.0, allow_inf_nan=False)
    search_units: int = Field(default=0, ge=0)
    joules: float = Field(default=0.0, ge=0.0, allow_inf_nan=False)

    model_config = ConfigDict(frozen=True)

    def __add__(self, other: CostObject) -> CostObject:
        if other is FREE:
            return self
        if self is FREE:
            return other
        return CostObject(**{name: getattr(self, name) + getattr(other, name) for name in NAMES})

    @classmethod
    def of(cls, amounts: Sequence[float]) -> CostObject:
        """The cost of amounts in each of UNITS."""
        return cls.model_validate(dict(zip(NAMES, amounts, strict=True)))

    @model_serializer
    def by_unit(self) -> dict[str, int | float]:
        """The amounts by unit, as plain data, without those units that are told only where something was spent."""
        amounts = dict(self.__dict__)
        for unit in SOMETIMES_TOLD:
            if not amounts[unit]:
                del amounts[unit]
        return amounts


FREE = CostObject()
"""Nothing in any unit."""


Pricer = Callable[[Sequence[str], str], CostObject]
"""Prices a batch: ``(doc_ids, strategy) -> expected cost``."""


def price_by_count(doc_ids: Sequence[str], strategy: str) -> CostObject:
    """The price where nothing more is known: one call, one unit a document, whatever the strategy."""
    return CostObject(docs=len(doc_ids), calls=1)


class RemainingBudgetView(NamedTuple):
    """An immutable snapshot of what is left, for schedulers (rule B4: they see, they never spend).

    Attributes:
        remaining_tokens: tokens left on the one account that reranking and assembly share.
        remaining_rerank_docs: documents that may still be reranked.
        remaining_rerank_calls: reranker calls left.
        assembly_token_buffer: tokens that reranking may not touch.
        remaining_latency_ms: milliseconds left (infinite where unlimited).
        remaining_usd: dollars left (infinite where unlimited).
        remaining_flops: floating-point operations left (infinite where unlimited).
        remaining_search_units: search units left.
        remaining_joules: joules left (infinite where unlimited).
        strategies: names of the registered rerankers, the default first.
        closed: those of them that failed too often to be tried again; a batch for one is not sent.
        pricer: prices a batch for :meth:`price`.

    Examples:
        >>> from ragtune.core.types import RemainingBudgetView
        >>> RemainingBudgetView(remaining_rerank_docs=3).remaining_rerank_docs
        3
    """

    remaining_tokens: int = UNLIMITED
    remaining_rerank_docs: int = UNLIMITED
    remaining_rerank_calls: int = UNLIMITED
    assembly_token_buffer: int = 0
    remaining_latency_ms: float = float("inf")
    remaining_usd: float = float("inf")
    remaining_flops: float = float("inf")
    remaining_search_units: int = UNLIMITED
    remaining_joules: float = float("inf")
    strategies: tuple[str, ...] = ("default",)
    closed: tuple[str, ...] = ()
    pricer: Pricer = price_by_count

    def price(self, doc_ids: Sequence[str], strategy: str) -> CostObject:
        """What reranking ``doc_ids`` by ``strategy`` is expected to cost."""
        return self.pricer(doc_ids, strategy)

    def affordable(self, doc_ids: Sequence[str], strategy: str) -> list[str]:
        """The longest prefix of ``doc_ids`` that every unit affords; prices grow with the batch."""
        wanted = list(doc_ids[: self.remaining_rerank_docs])
        if not wanted or self.affords(self.price(wanted, strategy)):
            return wanted
        sizes = range(1, len(wanted))
        return wanted[: bisect(sizes, False, key=lambda n: not self.affords(self.price(wanted[:n], strategy)))]

    def affords(self, cost: CostObject) -> bool:
        """Whether ``cost`` fits into every unit, leaving the assembly buffer untouched."""
        return (
            cost.docs <= self.remaining_rerank_docs
            and cost.calls <= self.remaining_rerank_calls
            and cost.tokens <= max(0, self.remaining_tokens - self.assembly_token_buffer)
            and cost.latency_ms <= self.remaining_latency_ms
            and cost.usd <= self.remaining_usd
            and cost.flops <= self.remaining_flops
            and cost.search_units <= self.remaining_search_units
            and cost.joules <= self.remaining_joules
        )


class _WatchedView:
    """A view that reports the first look at a limit. A proposal that is only cut to what is left needs none."""

    def __init__(self, view: RemainingBudgetView, report: Callable[[], None]) -> None:
        freely = {name: getattr(view, name) for name in ("strategies", "closed", "price", "affordable")}
        vars(self).update(_view=view, _report=report, **freely)

    def __getattr__(self, name: str) -> Any:
        self._report()
        return getattr(self._view, name)


def watched(view: RemainingBudgetView, report: Callable[[], None]) -> RemainingBudgetView:
    """The view, which calls ``report`` where its reader looks at a limit."""
    return cast(RemainingBudgetView, _WatchedView(view, report))


class BatchProposal(BaseModel):
    """A scheduler's wish (rule S3): the documents to rerank next, by which strategy, at what expected cost.

    Examples:
        >>> from ragtune.core.types import BatchProposal
        >>> BatchProposal(doc_ids=["d3", "d1"]).strategy
        'default'
    """

    doc_ids: list[str]
    strategy: str = "default"
    expected_cost: CostObject = FREE
    diagnostics: dict[str, Any] | None = Field(default_factory=dict)

    model_config = ConfigDict(frozen=True)


class StopRecord(BaseModel):
    """Why the loop stopped: a reason and its evidence, never a bare bool.

    Attributes:
        reason: a short identifier, e.g. ``budget_exhausted``, ``top_k_settled``.
        source: the component that decided.
        details: the figures that the decision rests on.
        message: reason and evidence in words; where a budget binds, the unit, its limit and its usage.

    Examples:
        >>> from ragtune.core.types import StopRecord
        >>> StopRecord(reason="settled", source="scheduler", details={"threshold": 0.4}).reason
        'settled'
    """

    reason: str
    source: str
    details: dict[str, Any] = Field(default_factory=dict)
    message: str = ""

    model_config = ConfigDict(frozen=True)
