"""How the requests of many queries have ended, as columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.evaluate.record import UNITS, QueryRecord
from experiments.evaluate.rows import taken
from ragtune.core.arrays import FloatArray, IntArray
from ragtune.core.types import GIVEN_UP


class Mishaps(NamedTuple):
    """What few queries have to tell.

    Attributes:
        batch_error: the first error of a batch; None if no batch has failed.
        stop_error: what gave the query up; None if it ended by itself.
        went_on: see :attr:`QueryRecord.mishaps`.
        silent: see :attr:`QueryRecord.silent_signals`.
        first_round: see :attr:`QueryRecord.first_round`.
        margins: see :attr:`QueryRecord.margins`.
        scale_doubt: see :attr:`QueryRecord.scale_doubt`.
    """

    batch_error: str | None
    stop_error: str | None
    went_on: Mapping[str, str]
    silent: frozenset[str]
    first_round: tuple[int, int] | None
    margins: Mapping[str, float]
    scale_doubt: str | None

    @classmethod
    def of(cls, record: QueryRecord) -> Mishaps | None:
        """What the record tells, if anything."""
        stop_error = record.stop["details"].get("error") if has_given_up(record.stop_reason) else None
        batch_error = record.batches.get("first_error")
        silent = frozenset(record.silent_signals)
        told = (record.mishaps, silent, record.first_round, record.margins, record.scale_doubt)
        found = cls(batch_error, stop_error, *told)
        return found if any(found) else None


@dataclass(frozen=True, eq=False)
class Outcomes:
    """How the requests of q queries have ended.

    Attributes:
        query_ids: ids of the queries.
        stop_reasons: why each stopped, in a word.
        sizes: shape (q, 4), documents in the final pool, documents that could not be scored, documents and tokens of
            the context.
        batches: shape (q, 2), batches sent to a reranker, and those of them that failed.
        ties: shape (q, 2), see :func:`experiments.evaluate.record.ties_of`.
        rewrites: shape (q, 3), see :attr:`QueryRecord.rewrites`.
        unmoved: shape (q,), see :attr:`QueryRecord.is_unmoved`.
        overrun_ms: shape (q,), milliseconds by which the query has passed its time limit.
        charged: shape (q, u), charged in each of ``UNITS``.
        actual: shape (q, u), really paid.
        mishaps: of the queries that have any, by query id.
    """

    query_ids: Sequence[str]
    stop_reasons: Sequence[str]
    sizes: IntArray
    batches: IntArray
    ties: IntArray
    rewrites: IntArray
    unmoved: NDArray[np.bool_]
    overrun_ms: FloatArray
    charged: FloatArray
    actual: FloatArray
    mishaps: Mapping[str, Mishaps]

    @classmethod
    def of(cls, records: Sequence[QueryRecord]) -> Outcomes:
        """The outcomes of these records."""
        told = {record.query_id: Mishaps.of(record) for record in records}
        return cls(
            query_ids=[record.query_id for record in records],
            stop_reasons=[record.stop_reason for record in records],
            sizes=_columns(4, [(r.pool_docs, len(r.dropped), r.context_docs, r.context_tokens) for r in records], int),
            batches=_columns(2, [[r.batches.get(name, 0) for name in ("sent", "failed")] for r in records], int),
            ties=_columns(2, [r.ties or (0, 0) for r in records], int),
            rewrites=_columns(3, [record.rewrites for record in records], int),
            unmoved=np.array([record.is_unmoved for record in records], dtype=bool),
            overrun_ms=np.array([record.overrun_ms for record in records], dtype=float),
            charged=_columns(len(UNITS), [record.charged for record in records], float),
            actual=_columns(len(UNITS), [record.actual for record in records], float),
            mishaps={query_id: mishaps for query_id, mishaps in told.items() if mishaps is not None},
        )

    def taken(self, queries: IntArray, folder: Path | None) -> Outcomes:
        """The outcomes of the queries at some places, in their order; a folder may hold large columns."""
        columns = vars(self).items()
        arrays: dict[str, Any] = {
            name: taken(column, queries, folder) for name, column in columns if isinstance(column, np.ndarray)
        }
        places = queries.tolist()
        ids, reasons = ([column[i] for i in places] for column in (self.query_ids, self.stop_reasons))
        return replace(self, query_ids=ids, stop_reasons=reasons, **arrays)

    def __len__(self) -> int:
        return len(self.query_ids)

    def told(self, what: Callable[[Mishaps], Any]) -> Iterator[Any]:
        """Whatever the queries tell of something, in their order, where they tell anything."""
        if self.mishaps:
            known = (self.mishaps.get(query_id) for query_id in self.query_ids)
            yield from filter(None, (what(mishaps) for mishaps in known if mishaps is not None))

    @property
    def given_up(self) -> NDArray[np.bool_]:
        """Which queries stopped because their policy failed, or a reranker too often, shape (q,)."""
        return np.fromiter(map(has_given_up, self.stop_reasons), bool, len(self))

    @property
    def unfinished(self) -> list[str]:
        """The queries of which something failed, so that another try may answer them better."""
        failed = (self.sizes[:, 1] > 0) | (self.batches[:, 1] > 0) | self.given_up
        return [self.query_ids[query] for query in np.flatnonzero(failed).tolist()]


def has_given_up(stop_reason: str) -> bool:
    """Whether a query stopped because its policy failed, or a reranker too often."""
    return stop_reason in GIVEN_UP


def _columns(width: int, rows: Sequence[Sequence[float]], kind: type) -> Any:
    return np.array(rows, dtype=kind).reshape(len(rows), width)
