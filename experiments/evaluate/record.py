"""What one replayed query leaves behind: plain data that survives JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from ragtune.core.output import ControllerOutput

UNITS = ("docs", "calls", "tokens", "latency_ms", "usd")
"""The units in which costs are reported, in this order."""


@dataclass(frozen=True)
class QueryRecord:
    """One query's replay.

    Attributes:
        query_id: whose.
        doc_ids: the final pool.
        rankings: per anytime step, positions in ``doc_ids``, best first.
        costs: per anytime step, charged so far in each of ``UNITS``.
        actual: what the run really paid, in each of ``UNITS``.
        stop: reason, source and details.
        account: the tracker's final snapshot.
        dropped: documents that could not be scored, with the reason.
        context_docs, context_tokens: size of the assembled context.
        trace: the trace as one JSON line.
        batches: how many were sent to a reranker and failed, and the first error; empty where none could be.
    """

    query_id: str
    doc_ids: list[str]
    rankings: list[list[int]]
    costs: list[list[float]]
    actual: list[float]
    stop: dict[str, Any]
    account: dict[str, Any]
    dropped: dict[str, str]
    context_docs: int
    context_tokens: int
    trace: str
    batches: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, output: ControllerOutput) -> QueryRecord:
        """The record of a finished request."""
        last = output.history[-1]
        return cls(
            query_id=output.query_id,
            doc_ids=list(last.doc_ids),
            rankings=[step.keys.argsort().tolist() for step in output.history],
            costs=[[getattr(step.cost, unit) for unit in UNITS] for step in output.history],
            actual=[getattr(output.actual_cost, unit) for unit in UNITS],
            stop=output.stop.model_dump(),
            account=output.final_budget_state,
            dropped=output.dropped,
            context_docs=len(output.documents),
            context_tokens=sum(doc.token_count for doc in output.documents),
            trace=output.trace.model_dump_json(),
            batches=output.batches.model_dump(),
        )

    @property
    def ranking(self) -> list[str]:
        """The final ranking's document ids, best first."""
        return self.ranking_at(-1)

    def ranking_at(self, step: int) -> list[str]:
        """Document ids at an anytime step, best first."""
        return [self.doc_ids[i] for i in self.rankings[step]]

    @property
    def charged(self) -> list[float]:
        """Charged in total, in each of ``UNITS``."""
        return self.costs[-1]

    def to_json(self) -> str:
        """One line."""
        return json.dumps(vars(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, line: str) -> QueryRecord:
        """The record of such a line."""
        return cls(**json.loads(line))
