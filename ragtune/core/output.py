"""What the controller hands back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, field_serializer

from ragtune.core.arrays import IntArray
from ragtune.core.batches.failures import BatchCount
from ragtune.core.hits import Entries
from ragtune.core.pool.columns import PoolColumns
from ragtune.core.pool.ordering import Ordering, RankingKeys
from ragtune.core.request.trace import ControllerTrace
from ragtune.core.types import CostObject, Listed, StopRecord


@dataclass(frozen=True)
class HistoryStep:
    """State after a batch: the cost so far and the ranking that stopping here would give.

    Attributes:
        cost: cost charged so far; ``latency_ms`` is the time elapsed.
        doc_ids: the pool's ids at that time.
        ordering: rule of the final order.
        columns: the pool's numbers at that time; ranked only when asked for.
    """

    cost: CostObject
    doc_ids: tuple[str, ...]
    ordering: Ordering
    columns: PoolColumns

    @cached_property
    def keys(self) -> RankingKeys:
        """The keys that the ranking is sorted by."""
        return self.ordering.keys_at(self.columns)

    @cached_property
    def ranking(self) -> tuple[str, ...]:
        """Ids of the documents that take part, best first."""
        return tuple(self.doc_ids[i] for i in self.keys.argsort())


def rankings_of(steps: Sequence[HistoryStep]) -> Sequence[IntArray]:
    """The ranking of each step, as positions in its ``doc_ids``, best first; those of a pool that stays at once."""
    first, *others = steps
    same = all(len(step.doc_ids) == len(first.doc_ids) and step.ordering is first.ordering for step in others)
    if not same or not all(step.columns.all_active for step in steps):
        return [step.keys.argsort() for step in steps]
    numbers = ("scores", "priorities", "base_scores", "posteriors")
    keys = first.ordering.keys_of(*(np.stack([getattr(step.columns, name) for step in steps]) for name in numbers))
    return list((-keys).argsort(axis=-1, kind="stable"))


class ControllerOutput(BaseModel):
    """The result of one request (rule A3).

    Attributes:
        documents: the assembled context, best first, within the token budget.
        trace: every decision.
        final_budget_state: the account at the end, by unit.
        history: the anytime history: step 0 is before any batch, then one step a batch.
        stop: why the loop stopped.
        actual_cost: cost that this run really paid (0 under replay).
        dropped: documents whose score was lost, with the reason; they are ranked like others without a score.
        batches: how many batches were sent, and how many failed.
    """

    query: str
    query_id: str = ""
    documents: Listed
    trace: ControllerTrace
    final_budget_state: dict[str, Any]
    history: list[HistoryStep] = Field(default_factory=list)
    stop: StopRecord
    actual_cost: CostObject = Field(default_factory=CostObject)
    dropped: dict[str, str] = Field(default_factory=dict)
    batches: BatchCount = Field(default_factory=BatchCount)

    model_config = ConfigDict(arbitrary_types_allowed=True)

    @field_serializer("history")
    def _plain_history(self, history: list[HistoryStep]) -> list[dict[str, Any]]:
        return [{"cost": step.cost.model_dump(), "ranking": list(step.ranking)} for step in history]

    @property
    def context_tokens(self) -> int:
        """Tokens of the assembled documents."""
        documents = self.documents
        counts = documents.token_counts if isinstance(documents, Entries) else [doc.token_count for doc in documents]
        return sum(counts)

    @property
    def ranking(self) -> tuple[str, ...]:
        """All documents that take part, best first, before the token budget cuts the list."""
        return self.history[-1].ranking
