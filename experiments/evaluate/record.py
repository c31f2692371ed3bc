"""The record of one replayed query: plain data that can be written as a line and read back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import ArrayLike
from pydantic_core import from_json, to_json

from experiments.evaluate.rankings import Orders, Positions, States, packed, small, together, unpacked
from ragtune.core.arrays import FloatArray
from ragtune.core.loop import FIRST_ROUND
from ragtune.core.output import ControllerOutput, rankings_of
from ragtune.core.request.trace import ControllerTrace
from ragtune.core.units import NAMES
from ragtune.core.units import UNITS as ALL
from ragtune.estimators.posterior.uncertainty import MARGINS
from ragtune.rerankers.scale import SCALE_DOUBT
from ragtune.retrievers.signalled import SILENT_SIGNAL

UNITS = NAMES
"""The units in which costs are reported, in this order: see :mod:`ragtune.core.units`."""

amounts_of = attrgetter(*UNITS)
"""The amounts of a cost, in the order of ``UNITS``."""


def ties_of(scores: FloatArray) -> list[int]:
    """How many of the scores that decide the top 10 another document has too, and how many decide it."""
    best = -np.sort(-scores[~np.isnan(scores)])
    deciding = best[best >= best[:10][-1:]].tolist()
    counts = Counter(deciding) if len(set(deciding)) < len(deciding) else {}
    return [sum(count for count in counts.values() if count > 1), len(deciding)]


def text_of(trace: ControllerTrace) -> str:
    """The same text as ``model_dump_json`` of a trace, in a tenth of the time."""
    events = [
        {"timestamp": at.timestamp, "component": at.component, "action": at.action, "details": at.details}
        for at in trace.events
    ]
    try:
        return orjson.dumps({"query_id": trace.query_id, "events": events}, option=_NO_OTHERS).decode()
    except TypeError:  # what parts of others may note: a number of NumPy or of more than 64 bits, a key that is no text
        return trace.model_dump_json()


_NO_OTHERS = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
"""Kinds of details that traces tell in words."""


_OF_EVERY_BATCH = frozenset({"propose", "consume_rerank", "rerank"})
"""Actions of which nothing is noted."""


def notes_of(trace: ControllerTrace) -> dict[str, Any]:
    """What figures and warnings need of a trace, as plain data; nothing is noted of an uneventful one."""
    notes: dict[str, Any] = {}
    for event in trace.events:
        action, details = event.action, event.details
        if action in _OF_EVERY_BATCH:
            continue
        if MARGINS in details:
            notes["margins"] = details[MARGINS]
        if action == SILENT_SIGNAL:
            notes.setdefault("silent", []).append(details["signal"])
        elif action == FIRST_ROUND:
            notes.setdefault("first_round", [details["documents"], details["calls"]])
        elif action == SCALE_DOUBT:
            notes.setdefault("scale_doubt", details["warning"])
        elif action == "reformulate":
            notes.setdefault("rewrites", [0, 0])
        elif action == "retrieve" and "new" in details and "rewrites" in notes:
            searched, new = notes["rewrites"]
            notes["rewrites"] = [searched + 1, new + details["new"]]
        elif action.endswith("_failed"):
            notes.setdefault("mishaps", {}).setdefault(action, str(details.get("error")))
    return notes


def told(amounts: ArrayLike) -> tuple[int, ...]:
    """Positions in ``UNITS``, along the last axis, of the units that are always reported, or were spent."""
    spent = np.atleast_2d(np.asarray(amounts, dtype=float)).sum(axis=0)
    return tuple(i for i, unit in enumerate(ALL[: len(spent)]) if unit.is_always_told or spent[i] > 0)


@dataclass(frozen=True, eq=False)
class QueryRecord:
    """What the replay of one query has brought: its final pool, and the ranking and cost at each anytime step."""

    query_id: str
    doc_ids: list[str]
    rankings: Orders  # of each step, positions in doc_ids
    costs: list[list[float]]  # charged by each step, in each of UNITS
    actual: list[float]  # really paid, in each of UNITS
    stop: dict[str, Any]  # reason, source and details
    account: dict[str, Any]  # the final state of the budget
    dropped: dict[str, str]  # why documents could not be scored
    context_docs: int
    context_tokens: int
    trace: str  # a line of JSON
    batches: dict[str, Any] = field(default_factory=dict)  # sent, failed, and the first error
    ties: list[int] = field(default_factory=list)  # see ties_of
    notes: dict[str, Any] = field(default_factory=dict)  # see notes_of

    @classmethod
    def of(cls, output: ControllerOutput, *, traced: bool = True) -> QueryRecord:
        last = output.history[-1]
        return cls(
            query_id=output.query_id,
            doc_ids=list(last.doc_ids),
            rankings=together(rankings_of(output.history), len(last.doc_ids)),
            costs=[list(step.amounts) for step in output.history],
            actual=list(amounts_of(output.actual_cost)),
            stop=dict(vars(output.stop)),
            account=output.final_budget_state,
            dropped=output.dropped,
            context_docs=len(output.documents),
            context_tokens=output.context_tokens,
            trace=text_of(output.trace) if traced else "",
            batches=output.batches.model_dump(),
            ties=ties_of(last.columns.scores),
            notes=notes_of(output.trace) if traced else {},
        )

    @property
    def final(self) -> Positions:
        """Positions in ``doc_ids`` of the final ranking, best first, shape (n,)."""
        return small(self.rankings[-1], len(self.doc_ids))

    @property
    def ranking(self) -> list[str]:
        return list(map(self.doc_ids.__getitem__, self.final.tolist()))

    def states(self, steps: Sequence[int] | None = None) -> States:
        """The ranking at some anytime steps, or at all of them."""
        whole = States(self.query_id, self.doc_ids, self.rankings)
        return whole if steps is None else whole.at(steps)

    @property
    def is_unmoved(self) -> bool:
        """Whether documents were scored, and the ranking is still the one before the first score."""
        scored = self.charged[UNITS.index("docs")] > len(self.dropped)
        return scored and np.array_equal(self.rankings[0], self.rankings[-1])

    @property
    def pool_docs(self) -> int:
        return len(self.doc_ids)

    @property
    def stop_reason(self) -> str:
        return str(self.stop["reason"])

    @property
    def charged(self) -> Sequence[float]:
        return self.costs[-1]

    @property
    def overrun_ms(self) -> float:
        """Milliseconds by which the query has passed its time limit; 0 within it or without one."""
        return float(self.account.get("latency_overrun", 0.0))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QueryRecord) and self._plain() == other._plain()

    def __hash__(self) -> int:
        return hash(self.query_id)

    def to_line(self) -> bytes:
        """Write the record as one line: JSON of all but its trace, a tab, and the trace, which is JSON as it is."""
        fields = self._plain()
        trace: str = fields.pop("trace")
        return b"\t".join((to_json(fields, inf_nan_mode="constants"), trace.encode()))

    def __reduce__(self) -> tuple[Any, ...]:
        return QueryRecord.from_line, (self.to_line(),)

    def _plain(self) -> dict[str, Any]:
        return {**vars(self), "rankings": packed(self.rankings, len(self.doc_ids))}

    @classmethod
    def from_line(cls, line: bytes) -> QueryRecord:
        """Read a record from its line."""
        fields, _, trace = line.partition(b"\t")
        known: dict[str, Any] = {**from_json(fields), "trace": trace.decode()}
        known["rankings"] = unpacked(known["rankings"], len(known["doc_ids"]))
        return cls(**known)


class BaselineReplay(NamedTuple):
    """A baseline's replay: positions of all documents before and after, and how many were charged."""

    query_id: str
    doc_ids: Sequence[str]
    first: Positions
    final: Positions
    docs: int

    @classmethod
    def of(cls, record: QueryRecord) -> BaselineReplay:
        return cls(
            record.query_id,
            record.doc_ids,
            small(record.rankings[0], len(record.doc_ids)),
            record.final,
            int(record.charged[UNITS.index("docs")]),
        )

    @property
    def ranking(self) -> list[str]:
        return [self.doc_ids[i] for i in self.final.tolist()]
