"""Why a document is where it is: replays a finished run's query, and tells what the policy knew of the document."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from experiments.compare.run_folder import FinishedRun, rankings_of, traces_of
from experiments.replay.build import Session, session_for
from experiments.report.decisions import decisions_of
from ragtune.core.errors import ConfigError
from ragtune.core.output import ControllerOutput, HistoryStep
from ragtune.core.plain import count_of
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import ScoredDocument
from ragtune.core.units import UNITS


def explained(run: FinishedRun, query_id: str, doc_id: str) -> Iterator[str]:
    """Lines that say where the document came from, what was expected of it, when it was scored or why not.

    Raises:
        ConfigError: if the query or document is unknown, or the reranker is a live one, which would be paid again.
    """
    session = session_for(run.config)
    if not all(reranker.facts.is_recorded for reranker in session.rerankers.values()):
        raise ConfigError(f"run {run.name} has a live reranker: allowed are recorded scores (ragtune score makes them)")
    if query_id not in session.dataset.queries:
        raise ConfigError(f"query {query_id!r}: run {run.name} has {len(session.dataset.queries)} others")
    output = session.controller.run(session.dataset.queries[query_id], query_id=query_id)
    if list(output.ranking) != rankings_of(run).get(query_id, []):
        yield "warning: this replay ends with another ranking than the run: files or code have changed since"
    if not any(doc_id in step.doc_ids for step in output.history):
        raise ConfigError(f"document {doc_id!r}: not among the {len(output.ranking)} candidates of query {query_id!r}")
    yield from _origin(session, output, query_id, doc_id)
    yield from _scoring(run, session, output, doc_id)
    places = [step.ranking.index(doc_id) + 1 for step in output.history if doc_id in step.ranking]
    yield f"place after each batch: {' '.join(map(str, places))} of {len(output.ranking)}"


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
    trace = traces_of(run)[output.query_id]
    steps, rows = (decisions_of(trace, ())[name] for name in ("steps", "rows"))
    proposed = [event["details"]["doc_ids"] for event in trace["events"] if event["action"] == "propose"]
    scores = {batch: score for batch, found, _, score, _ in rows if found == doc_id}
    sent = [step for step, ids in zip(steps, proposed, strict=True) if doc_id in ids]
    for batch, _, _, outcome, *_ in sent:
        said = "refused by the budget" if outcome == "denied" else "sent, without a score"
        yield f"batch {batch} of {len(steps)}: " + (f"scored {scores[batch]:.4g}" if batch in scores else said)
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
