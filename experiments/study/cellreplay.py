"""Replays cells of a study and writes their files: all code that decides what a cell holds."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.evaluate.files import whole
from experiments.evaluate.measures import Measures
from experiments.evaluate.record import UNITS
from experiments.replay.build import session_for
from ragtune.core.errors import ConfigError, FailedRunError, InputError
from ragtune.core.output import ControllerOutput
from ragtune.core.request.budget import CostBudget
from ragtune.core.request.context import Request
from ragtune.core.types import GIVEN_UP
from ragtune.core.units import LIMITS


@dataclass(frozen=True)
class CellJob:
    """The replay of a collection through one policy under one hard budget, and the file of its cell."""

    collection: str
    policy: str
    column: str  # the budget as text, or a name
    config: Mapping[str, Any]
    limit: float | None  # of ``unit`` (a short name), for each query; None for no limit
    unit: str
    measures: Sequence[str]
    file: Path


def run_replay(jobs: Sequence[CellJob]) -> int:
    """Replay cells that differ by their limits alone, and write their files. Returns the number of cells."""
    try:
        for job, cell in zip(jobs, _replayed(jobs), strict=True):
            job.file.parent.mkdir(parents=True, exist_ok=True)
            with whole(job.file, f".{job.column}") as beside:
                beside.write_bytes(gzip.compress(json.dumps(cell).encode(), compresslevel=5, mtime=0))
    except (InputError, FailedRunError) as error:
        job = jobs[0]
        kind = FailedRunError if isinstance(error, FailedRunError) else ConfigError
        raise kind(f"policy {job.policy!r} on collection {job.collection!r}: {error}") from error
    return len(jobs)


def _replayed(jobs: Sequence[CellJob]) -> list[dict[str, Any]]:
    config = jobs[0].config
    session = session_for(config)
    limits = {key: value for key, value in config["budget"].items() if key != "_target_"}
    budgets = [CostBudget(**{**limits, LIMITS[job.unit]: job.limit}) for job in jobs]
    queries = session.dataset.queries
    measures = Measures(jobs[0].measures, session.dataset.qrels)
    requests = (Request(queries[query_id], query_id) for query_id in session.dataset.judged)
    answers = (session.controller.run_under(request, budgets) for request in requests)
    rows = [[_row(output) for output in answer] for answer in answers]
    columns = list(zip(*rows, strict=True))
    for column in columns:
        _refuse_failures(column, config["failures"]["max_share"])
    gaps = {join.gap: join.missing for join in session.dataset.joins if join.missing}
    return [{**_cell(session.dataset.judged, column, measures), "warnings": gaps} for column in columns]


def _refuse_failures(rows: Sequence[Mapping[str, Any]], max_share: float) -> None:
    """Raise if more queries were given up than is allowed: their rankings say nothing about the policy."""
    failed = [row for row in rows if row["stops"] in GIVEN_UP]
    if len(failed) > max_share * len(rows):
        raise FailedRunError(f"{len(failed)} of {len(rows)} queries given up; first error: {failed[0]['error']}")


def _row(output: ControllerOutput) -> dict[str, Any]:
    cost = output.history[-1].cost
    return {
        "ranking": output.ranking,
        "charged": [getattr(cost, unit) for unit in UNITS],
        "stops": output.stop.reason,
        "error": output.stop.details.get("error"),
    }


def _cell(judged: Sequence[str], rows: Sequence[Mapping[str, Any]], measures: Measures) -> dict[str, Any]:
    by_query = dict(zip(judged, rows, strict=True))
    values = measures.of_topics({q: row["ranking"] for q, row in by_query.items()}, {q: q for q in judged})
    return {
        "values": values.tolist(),
        **{name: [row[name] for row in rows] for name in ("charged", "stops")},
    }
