"""Why each document was reranked when it was, in a form that a page can show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ragtune.core.output import ControllerOutput, HistoryStep

ROW = ("batch", "doc", "first_rank", "estimate", "standing", "open", "score", "final_rank")
"""Fields of a row: batch from 1; document; first-stage rank from 1; the estimator's value of it at that moment, its
standing among the ``open`` candidates by that value; the reranker's score; its final rank, from 1. None: not known."""

INELIGIBLE = "ineligible"
"""Action of the trace events that count neighbours which an expander found and the reranker cannot score."""


def counted(events: Iterable[Mapping[str, Any]], action: str) -> int:
    """Sum of the counts of all events of an action, where the events are as in ``traces.jsonl.gz``."""
    return sum(event["details"]["count"] for event in events if event["action"] == action)


def decisions_of(output: ControllerOutput) -> dict[str, Any]:
    """The decisions of a finished request: ``rows`` of :data:`ROW`, the final ``ranking`` (top 10) and ``stop``."""
    trace = output.trace.model_dump()
    ranking = list(output.ranking)
    return decisions_from_trace(trace, output.history[-1].doc_ids, ranking, output.history)


def decisions_from_trace(
    trace: Mapping[str, Any],
    pool: Sequence[str] | None,
    ranking: Sequence[str],
    history: Sequence[HistoryStep] = (),
) -> dict[str, Any]:
    """The decisions of a written trace, as :func:`decisions_of` returns them.

    The values of the estimator are known only where the history is given.

    Args:
        trace: a line of ``traces.jsonl.gz``, parsed.
        pool: document ids in first-stage order, or None where that is not known.
        ranking: the final ranking.
        history: the anytime states, which hold the values of the estimator.
    """
    first = {doc: i + 1 for i, doc in enumerate(pool or ())}
    final = {doc: i + 1 for i, doc in enumerate(ranking)}
    rows: list[list[Any]] = []
    stop: dict[str, Any] = {}
    notes: dict[int, Any] = {}
    batch = 0
    for event in trace["events"]:
        details = event["details"]
        if event["action"] == "propose":
            batch += 1
            if details.get("diagnostics"):
                notes[batch] = details["diagnostics"]
        elif event["component"] == "reranker" and event["action"] == "rerank":
            values = _values(history[batch - 1], details["scores"]) if history else {}
            for doc, score in details["scores"].items():
                known = values.get(doc, (None, None, None))
                rows.append([batch, doc, first.get(doc), *known, round(score, 6), final.get(doc)])
        elif event["action"] == "stop" and event["component"] == "controller":
            stop = {key: details[key] for key in ("reason", "source", "details")}
    return {"rows": rows, "ranking": list(ranking[:10]), "stop": stop, "notes": notes}


def _values(step: HistoryStep, docs: Mapping[str, float]) -> dict[str, tuple[float, int, int]]:
    """Value, standing and number of the open candidates, for the documents that were chosen at that step."""
    columns = step.columns
    candidates = columns.active[np.isnan(columns.scores[columns.active])]
    ordered = candidates[np.argsort(-columns.priorities[candidates], kind="stable")]
    standing = {int(position): i + 1 for i, position in enumerate(ordered)}
    index = {step.doc_ids[position]: position for position in standing}
    return {
        doc: (round(float(columns.priorities[index[doc]]), 6), standing[index[doc]], len(ordered))
        for doc in docs
        if doc in index
    }
