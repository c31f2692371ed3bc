"""What was reranked for a query of a finished run, and why a document is where it is."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.compare.runs import FinishedRun, rankings_of, traces_of
from experiments.replay.build import Session, session_for
from ragtune.core.errors import ConfigError
from ragtune.core.output import ControllerOutput, HistoryStep
from ragtune.core.plain import count_of
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import ScoredDocument
from ragtune.core.units import UNITS


@dataclass(frozen=True)
class Batch:
    """A proposed batch and what became of it."""

    doc_ids: Sequence[str]
    scores: Mapping[str, float]
    reason: Mapping[str, Any]  # the scheduler's
    refusal: Mapping[str, Any] | None  # the budget's
    paid: NDArray[np.float64]  # by all batches so far, in each of UNITS

    def result(self, doc_id: str) -> str:
        if doc_id in self.scores:
            return f"scored {self.scores[doc_id]:.4g}"
        return "refused by the budget" if self.refusal is not None else "sent, without a score"

    def __str__(self) -> str:
        paid = ", ".join(count_of(n, unit.noun) for n, unit in zip(self.paid, UNITS, strict=True) if n)
        refused = None if self.refusal is None else f"refused by the budget ({_words(self.refusal)})"
        became = refused or f"{len(self.scores)} scored"
        why = f"; why: {_words(self.reason)}" if self.reason else ""
        return f"{len(self.doc_ids)} documents, {became}; paid so far: {paid or 'nothing'}{why}"


def explained(run: FinishedRun, query_id: str, doc_id: str | None = None) -> Iterator[str]:
    """Lines that say why a document is where it is; without a document, what was reranked, batch by batch."""
    if doc_id is None:
        yield from _steps(run, query_id)
        return
    session = session_for(run.config)
    if not all(reranker.facts.is_recorded for reranker in session.rerankers.values()):
        raise ConfigError(f"run {run.name} has a live reranker: allowed are recorded scores (ragtune score makes them)")
    _require_query(run, query_id, session.dataset.queries)
    output = session.controller.run(session.dataset.queries[query_id], query_id=query_id)
    if list(output.ranking) != rankings_of(run).get(query_id, []):
        yield "warning: this replay ends with another ranking than the run: files or code have changed since"
    if not any(doc_id in step.doc_ids for step in output.history):
        raise ConfigError(f"document {doc_id!r}: not among the {len(output.ranking)} candidates of query {query_id!r}")
    yield from _origin(session, output, query_id, doc_id)
    yield from _scoring(run, session, output, doc_id)
    places = [step.ranking.index(doc_id) + 1 for step in output.history if doc_id in step.ranking]
    yield f"place after each batch: {' '.join(map(str, places))} of {len(output.ranking)}"


def _require_query(run: FinishedRun, query_id: str, known: Collection[str]) -> None:
    if query_id not in known:
        raise ConfigError(f"query {query_id!r}: run {run.name} has {len(known)} others")


def _steps(run: FinishedRun, query_id: str) -> Iterator[str]:
    traces = traces_of(run)
    _require_query(run, query_id, traces)
    events = traces[query_id]["events"]
    yield f"query {query_id}"
    for number, batch in enumerate(_batches(events), start=1):
        yield f"batch {number}: {batch}"
    ends = [e["details"] for e in events if e["action"] == "stop" and e["component"] == "controller"]
    yield from (f"ended: {end['reason'].replace('_', ' ')} {_words(end['details'])}".rstrip() for end in ends[-1:])


def _batches(events: Sequence[Mapping[str, Any]]) -> Iterator[Batch]:
    """The batches of a trace; the events up to the next proposal say what became of each."""
    starts = [i for i, event in enumerate(events) if event["action"] == "propose"]
    paid = np.zeros(len(UNITS))
    for start, end in pairwise([*starts, len(events)]):
        proposal, following = events[start]["details"], events[start + 1 : end]
        paid = paid + _paid(following)
        scores = [event["details"]["scores"] for event in following if event["action"] == "rerank"]
        refusals = [event["details"] for event in following if event["action"] == "deny_rerank"]
        refusal = refusals[0] if refusals else None
        reason = proposal.get("diagnostics") or {}
        yield Batch(proposal["doc_ids"], scores[0] if scores else {}, reason, refusal, paid)


def _paid(following: Sequence[Mapping[str, Any]]) -> NDArray[np.float64]:
    """What one batch was charged: its price, the corrected price, or nothing where it was given back."""
    paid: Mapping[str, float] = {}
    keys = {"consume_rerank": "cost", "settle_rerank": "actual", "overrun_rerank": "actual", "refund_rerank": ""}
    for event in following:
        if event["component"] == "budget" and event["action"] in keys:
            paid = event["details"].get(keys[event["action"]], {})
    return np.array([paid.get(unit.name, 0) for unit in UNITS], dtype=float)


def _words(details: Mapping[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in details.items())


def _origin(session: Session, output: ControllerOutput, query_id: str, doc_id: str) -> Iterator[str]:
    grade = session.dataset.qrels.get(query_id, {}).get(doc_id)
    yield f"query {query_id}: {output.query}"
    yield f"document {doc_id}, {'without a judgment' if grade is None else f'judged {grade}'}"
    found = _document(output, doc_id)
    sources = {} if found is None else found.sources
    yield "found by: " + (", ".join(f"{name} {score:.4g}" for name, score in sources.items()) or "not known")


def _scoring(run: FinishedRun, session: Session, output: ControllerOutput, doc_id: str) -> Iterator[str]:
    values = [_value(step, doc_id) for step in output.history]
    told = " ".join("-" if value is None else f"{value:.3f}" for value in values)
    yield f"estimate before the first batch and after each one: {told}"
    batches = list(_batches(traces_of(run)[output.query_id]["events"]))
    sent = [(number, batch) for number, batch in enumerate(batches, start=1) if doc_id in batch.doc_ids]
    for number, batch in sent:
        yield f"batch {number} of {len(batches)}: {batch.result(doc_id)}"
    if sent:
        return
    yield f"never sent: the request ended with {output.stop.message or output.stop.reason}"
    yield from _missed(session, output, doc_id)


def _missed(session: Session, output: ControllerOutput, doc_id: str) -> Iterator[str]:
    """What a score would have cost and been."""
    reranker, found = session.rerankers["default"], _document(output, doc_id)
    tracker = session.parts["budget"].create_tracker()
    context = RAGtuneContext(query=output.query, query_id=output.query_id, tracker=tracker)
    if found is None or not reranker.facts.can_score(doc_id, context):
        return
    item = PoolItem.from_document(found, 0, found.sources)
    cost = reranker.expected_cost([item], context)
    amounts = ", ".join(count_of(getattr(cost, unit.name), unit.noun) for unit in UNITS if getattr(cost, unit.name))
    score = reranker.rerank([item], context, "default").get(doc_id)
    yield f"a score would have cost {amounts}" + ("" if score is None else f"; it would have been {score:.4g}")


def _document(output: ControllerOutput, doc_id: str) -> ScoredDocument | None:
    return next((document for document in output.documents if document.id == doc_id), None)


def _value(step: HistoryStep, doc_id: str) -> float | None:
    if doc_id not in step.doc_ids:
        return None
    value = float(step.columns.priorities[step.doc_ids.index(doc_id)])
    return None if np.isnan(value) else value
