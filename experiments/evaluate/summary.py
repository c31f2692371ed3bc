"""The summary of a run: what the terminal, MLflow and comparisons read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments.datasets.dataset import Dataset
from experiments.evaluate.curves import Curve
from experiments.evaluate.record import UNITS, QueryRecord
from ragtune.core.types import STRATEGY_CLOSED


def summarize(
    dataset: Dataset, records: Sequence[QueryRecord], curve: Curve, *, max_failed_share: float
) -> dict[str, Any]:
    """Figures of a run, all deterministic.

    ``cost`` holds totals over all replayed queries, ``cost_per_query`` their means. ``aucc`` is the mean height of the
    headline measure's curve from 0 documents to the run's last step; ``docs_to_95pct`` and ``docs_to_99pct`` are the
    fewest documents a query at which the curve reaches that share of its own last value.
    """
    charged = np.sum([record.charged for record in records], axis=0)
    actual = np.sum([record.actual for record in records], axis=0)
    final = float(curve.mean[-1, 0])
    return {
        "dataset": dataset.name,
        "queries": len(dataset.judged),
        "queries_replayed": len(records),
        "warnings": dict(dataset.warnings),
        "measures": _named(curve.measures, curve.mean[-1]),
        "interval": {
            name: [float(low), float(high)]
            for name, low, high in zip(curve.measures, curve.low[-1], curve.high[-1], strict=True)
        },
        "cost": {"charged": _costs(charged), "actual": _costs(actual)},
        "cost_per_query": {"charged": _costs(charged / len(records)), "actual": _costs(actual / len(records))},
        "context_per_query": {
            "docs": float(np.mean([record.context_docs for record in records])),
            "tokens": float(np.mean([record.context_tokens for record in records])),
        },
        "aucc": curve.area(),
        "docs_to_95pct": curve.docs_to(0.95, final),
        "docs_to_99pct": curve.docs_to(0.99, final),
        "stop_reasons": dict(sorted(Counter(record.stop["reason"] for record in records).items())),
        "dropped_docs": sum(len(record.dropped) for record in records),
        "latency_overrun_ms": _overruns([record.account.get("latency_overrun", 0.0) for record in records]),
        "failures": failures_of(records, max_failed_share),
    }


def failures_of(records: Sequence[QueryRecord], max_share: float) -> dict[str, Any]:
    """What failed in a run, and whether so much did that the run itself has (``status``: ``finished`` or ``failed``).

    The share that counts is the larger one of failed batches among those sent, and of queries that gave a reranker up
    among all: a reranker that is closed for the run sends no more batches that could fail.
    """
    sent = sum(record.batches.get("sent", 0) for record in records)
    failed = sum(record.batches.get("failed", 0) for record in records)
    given_up = sum(has_given_up(record) for record in records)
    share = max(failed / sent if sent else 0.0, given_up / len(records) if records else 0.0)
    errors = (error for record in records if (error := record.batches.get("first_error")))
    return {
        "batches_sent": sent,
        "batches_failed": failed,
        "queries_given_up": given_up,
        "share": share,
        "first_error": next(errors, None),
        "status": "failed" if share > max_share else "finished",
    }


def has_given_up(record: QueryRecord) -> bool:
    """Whether the query stopped because a reranker had failed too often."""
    return bool(record.stop["reason"] == STRATEGY_CLOSED)


def _overruns(overruns: Sequence[float]) -> dict[str, float]:
    """How many queries passed their time limit, and by how many milliseconds: on average over those, and at most."""
    late = [ms for ms in overruns if ms > 0.0]
    return {"queries": len(late), "mean": float(np.mean(late)) if late else 0.0, "max": max(late, default=0.0)}


def _named(names: Sequence[str], values: Sequence[float]) -> dict[str, float]:
    return {name: float(value) for name, value in zip(names, values, strict=True)}


def _costs(values: Sequence[float]) -> dict[str, float | int]:
    costs: Mapping[str, float] = dict(zip(UNITS, map(float, values), strict=True))
    return {unit: int(value) if value.is_integer() and unit in UNITS[:3] else value for unit, value in costs.items()}
