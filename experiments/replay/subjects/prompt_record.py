"""What a prompt's way through the pipeline leaves behind, as the record of a query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate
from typing import Any

from experiments.evaluate.record import UNITS, QueryRecord, notes_of
from experiments.evaluate.states import together
from ragtune.core.request.clock import VirtualClock
from ragtune.core.request.trace import ControllerTrace
from ragtune.core.tokens import count_tokens
from ragtune.core.types import CostObject, StopRecord
from ragtune.superprompt import SuperPrompt
from ragtune.superprompt.chunks import document_of
from ragtune.superprompt.reranking.base import Reranked
from ragtune.superprompt.stages.base import ORDER, FailedStageError
from ragtune.superprompt.super_prompt import VIEWS

VIEW_POSITIONS: Mapping[str, int] = {"retrieval": 0, "reranked": -3, "a3": -2, "a4": -1}
"""Where the views are among a record's rankings: first Retrieval's, then the order after each of the ReRanker's
batches, the last of which is its view, then what A3 and what A4 left."""

VIEW_OF = dict(zip(ORDER[2:6], VIEWS, strict=True))
"""The stages that write views."""

RETRIEVAL, RERANKER, GATE, _ = VIEW_OF


def replay_record(query_id: str, done: SuperPrompt, reranked: Reranked | None) -> QueryRecord:
    """The record of a finished prompt. Costs grow from state to state; the last has those of all stages.

    Args:
        query_id: id of the query whose prompt it was.
        done: the prompt as the last stage left it.
        reranked: what the ReRanker's rerank stage made of the documents; None where there was nothing to rerank.
    """
    output = None if reranked is None else reranked.output
    bills = done.extras["costs"]
    spent = dict(zip(ORDER, accumulate(CostObject(**bill["charged"]) for bill in bills), strict=True))
    paid = list(accumulate(CostObject(**bill["paid"]) for bill in bills))[-1]
    views = [[document_of(chunk_id) for chunk_id in done.views_by_stage[view]] for view in VIEWS]
    found, *later = views
    states = [
        (found, spent[RETRIEVAL]),
        *((step.ranking, spent[RETRIEVAL] + step.cost) for step in (output.history[1:-1] if output else ())),
        *zip(later, (spent[RERANKER], spent[GATE], spent[ORDER[-1]]), strict=True),
    ]
    place = {doc_id: i for i, doc_id in enumerate(found)}
    stop = _stop(reranked)
    trace = _trace(query_id, done, reranked, stop)
    return QueryRecord(
        query_id=query_id,
        doc_ids=found,
        rankings=together([[place[doc_id] for doc_id in ranking] for ranking, _ in states], len(found)),
        costs=[_in_units(cost) for _, cost in states],
        actual=_in_units(paid),
        stop=stop.model_dump(),
        account={} if output is None else output.final_budget_state,
        dropped={} if output is None else output.dropped,
        context_docs=len(done.final_selection_ids),
        context_tokens=sum(count_tokens(chunk.snippet) for chunk in done.chunks(done.final_selection_ids)),
        trace=trace.model_dump_json(),
        notes=notes_of(trace),
        batches={} if output is None else output.batches.model_dump(),
    )


def refusal_record(query_id: str, error: FailedStageError) -> QueryRecord:
    """The record of a prompt that went nowhere: no documents in any view, and why."""
    stop = StopRecord(reason="refused", source=error.stage, details={"error": str(error)})
    trace = ControllerTrace(query_id=query_id, clock=VirtualClock())
    _add_stop(trace, stop)
    return QueryRecord(
        query_id=query_id,
        doc_ids=[],
        rankings=[[] for _ in VIEW_POSITIONS],
        costs=[_in_units(error.cost) for _ in VIEW_POSITIONS],
        actual=_in_units(error.paid),
        stop=stop.model_dump(),
        account={},
        dropped={},
        context_docs=0,
        context_tokens=0,
        trace=trace.model_dump_json(),
    )


def _in_units(cost: CostObject) -> list[float]:
    return [getattr(cost, unit) for unit in UNITS]


def _stop(reranked: Reranked | None) -> StopRecord:
    if reranked is None:
        return StopRecord(reason="no_candidates", source=RETRIEVAL)
    if reranked.output is None:
        return StopRecord(reason="fixed_depth", source=RERANKER, details={"candidates": len(reranked.ids)})
    return reranked.output.stop


def _trace(query_id: str, done: SuperPrompt, reranked: Reranked | None, stop: StopRecord) -> ControllerTrace:
    """Every stage with its bill; before the ReRanker's, what was decided there. Time is what was charged."""
    clock = VirtualClock()
    trace = ControllerTrace(query_id=query_id, clock=clock)
    for bill in done.extras["costs"]:
        name = bill["stage"]
        if name == RERANKER:
            _add_decisions(trace, reranked, stop)
        clock.advance(bill["charged"]["latency_ms"])
        details: dict[str, Any] = {"charged": bill["charged"], "paid": bill["paid"]}
        if name in VIEW_OF:
            details["documents"] = len(done.views_by_stage[VIEW_OF[name]])
        if name in done.extras.get("llm", {}):
            details["llm"] = done.extras["llm"][name]
        trace.add("pipeline", "stage", name=name, **details)
    return trace


def _add_decisions(trace: ControllerTrace, reranked: Reranked | None, stop: StopRecord) -> None:
    if reranked is not None and reranked.output is not None:
        now = trace.clock.now_ms() - trace.start_ms
        events = reranked.output.trace.events
        trace.events += [replace(event, timestamp=now + event.timestamp) for event in events]
        return
    if reranked is not None and reranked.scores:
        trace.add("reranker", "rerank", strategy="default", scores=reranked.scores)
    _add_stop(trace, stop)


def _add_stop(trace: ControllerTrace, stop: StopRecord) -> None:
    trace.add("controller", "stop", reason=stop.reason, source=stop.source, details=stop.details)
