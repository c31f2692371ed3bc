"""Why each document was reranked when it was, in a form that a page can show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from experiments.evaluate.record import UNITS

ROW = ("batch", "doc", "first_rank", "score", "final_rank")
"""Fields of a row; batches and ranks count from 1. None: not known."""

STEP = ("batch", "asked", "strategy", "outcome", "reason", "cost")
"""Fields of a step. ``asked`` is the number of documents proposed, ``outcome`` is ``scored``, ``failed`` or ``denied``,
``cost`` that of all batches so far, in each of ``UNITS``."""

INELIGIBLE = "ineligible"
"""Action of the trace events that count neighbours which an expander found and the reranker cannot score."""


def counted(events: Iterable[Mapping[str, Any]], action: str) -> int:
    """Sum of the counts of all events of an action, where the events are as in ``traces.jsonl.gz``."""
    return sum(event["details"]["count"] for event in events if event["action"] == action)


def decisions_of(trace: Mapping[str, Any], ranking: Sequence[str], pool: Sequence[str] = ()) -> dict[str, Any]:
    """The decisions of a request: ``rows`` of :data:`ROW`, ``steps`` of :data:`STEP`, top 10, why it ended, notes."""
    first, final = _ranks(pool), _ranks(ranking)
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
            scores = details["scores"].items()
            rows += [[batch, doc, first.get(doc), round(score, 6), final.get(doc)] for doc, score in scores]
        elif event["action"] == "stop" and event["component"] == "controller":
            stop = {key: details[key] for key in ("reason", "source", "details")}
    steps = list(_steps(trace["events"]))
    return {"rows": rows, "steps": steps, "ranking": list(ranking[:10]), "stop": stop, "notes": notes}


def _ranks(ranking: Sequence[str]) -> dict[str, int]:
    return {doc: i + 1 for i, doc in enumerate(ranking)}


def _steps(events: Sequence[Mapping[str, Any]]) -> Iterator[list[Any]]:
    """A row of :data:`STEP` for each proposal; the events up to the next one say what became of it."""
    starts = [i for i, event in enumerate(events) if event["action"] == "propose"]
    total = np.zeros(len(UNITS))
    for batch, (start, end) in enumerate(pairwise([*starts, len(events)]), start=1):
        following = events[start + 1 : end]
        proposal = events[start]["details"]
        total = total + _paid(following)
        cost = [round(float(amount), 6) for amount in total]
        yield [batch, len(proposal["doc_ids"]), proposal["strategy"], *_outcome(following), cost]


def _outcome(following: Sequence[Mapping[str, Any]]) -> tuple[str, Any]:
    for event in following:
        if event["action"] == "deny_rerank":
            return "denied", event["details"]
        if event["component"] == "reranker" and event["action"] == "rerank":
            return "scored", None
    errors = [event["details"]["error"] for event in following if "error" in event["details"]]
    return "failed", {"error": errors[0]} if errors else None


def _paid(following: Sequence[Mapping[str, Any]]) -> Any:
    """What one batch was charged: its price, the corrected price, or nothing where it was given back."""
    paid: Mapping[str, float] = {}
    keys = {"consume_rerank": "cost", "settle_rerank": "actual", "overrun_rerank": "actual", "refund_rerank": ""}
    for event in following:
        if event["component"] == "budget" and event["action"] in keys:
            paid = event["details"].get(keys[event["action"]], {})
    return np.array([paid.get(unit, 0) for unit in UNITS], dtype=float)
