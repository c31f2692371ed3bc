"""What a SuperPrompt says about itself, as rows for a table or JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragtune.core.types import CostObject
from ragtune.superprompt import SuperPrompt
from ragtune.superprompt.super_prompt import VIEWS

_SCORED = ("reranked", "retrieval")
_TRACES = {
    "A0_PreProcessing": (
        "normalized_map",
        "decisions",
        "rules",
        "unknown_attributes",
        "defaults_used",
        "missing",
        "semantic_used",
    ),
    "A2_PromptShaper": ("a2_decisions",),
    "Retrieval": ("retrieval",),
    "ReRanker": ("reranked",),
    "A3_NLI_Gate": ("a3_decisions",),
    "A4_Condenser": ("a4_decisions",),
    "A5_Format_Enforcer": ("format_enforcer", "a5_decisions"),
}


@dataclass(frozen=True)
class ChunkRow:
    """A line of a view.

    Attributes:
        rank: place of the chunk in the view, from 1.
        before: place of the chunk in the view before; None in the first view.
        score: score by the stage or, where it gave none, by the latest stage before it that did; None without any.
        scored_by: name of the view that the score comes from.
        source: ``conversation`` or ``memory``.
        chunk_id: ``doc_id#chunk_index``.
        span: characters of the document, ``start-end``.
        text: text of the chunk.
    """

    rank: int
    before: int | None
    score: float | None
    scored_by: str
    source: str
    chunk_id: str
    span: str
    text: str


def view_rows(sp: SuperPrompt, view: str) -> list[ChunkRow]:
    """The chunks of a stage's view in order; none if the stage has not run."""
    ids = next((ids for name, ids in sp.views_by_stage.items() if name == view), [])
    previous = VIEWS[: [*VIEWS].index(view)][-1:] if view in VIEWS else ()
    before = {chunk_id: n for name in previous for n, chunk_id in enumerate(sp.views_by_stage[name], start=1)}
    return _rows(sp, ids, before, _SCORED[-1:] if view == "retrieval" else _SCORED)


def selection_rows(sp: SuperPrompt) -> list[ChunkRow]:
    """The chunks of the final selection in order."""
    return _rows(sp, sp.final_selection_ids, {}, _SCORED)


def cost_rows(sp: SuperPrompt, others: Sequence[Mapping[str, Any]] = ()) -> list[dict[str, Any]]:
    """One row for each run of a stage, then what else was spent, with charged and paid costs side by side."""
    return [_cost_row({"outcome": "done", **entry}) for entry in [*sp.extras.get("costs", []), *others]]


def cost_entry(name: str, outcome: str, charged: CostObject, paid: CostObject) -> dict[str, Any]:
    """The cost of anything but a completed stage, in the form of ``extras["costs"]``, with an ``outcome``."""
    costs = {"charged": charged.model_dump(mode="json"), "paid": paid.model_dump(mode="json")}
    return {"stage": name, "outcome": outcome, "ms": None, **costs}


def trace(sp: SuperPrompt, stage: str) -> dict[str, Any]:
    """What a stage wrote down: its own entries of ``extras``, who answered, and its notices; JSON values."""
    found = {key: sp.extras[key] for key in _TRACES.get(stage, ()) if key in sp.extras}
    answered = sp.extras.get("llm", {}).get(stage)
    if answered is not None:
        found["llm"] = answered
    notices = notices_of(sp, stage)
    return found | ({"notices": notices} if notices else {})


def notices_of(sp: SuperPrompt, stage: str | None = None) -> list[str]:
    """Notices for the user, of one stage or of all."""
    return [n["message"] for n in sp.extras.get("notices", []) if stage is None or n["stage"] == stage]


def _rows(sp: SuperPrompt, ids: Sequence[str], before: Mapping[str, int], views: Sequence[str]) -> list[ChunkRow]:
    scores = [(view, sp.extras.get(view, {}).get("scores", {})) for view in views]
    rows = []
    for rank, chunk in enumerate(sp.chunks(ids), start=1):
        by, score = next(((view, known[chunk.id]) for view, known in scores if chunk.id in known), ("", None))
        span = f"{chunk.start}-{chunk.end}"
        rows.append(ChunkRow(rank, before.get(chunk.id), score, by, chunk.source, chunk.id, span, chunk.snippet))
    return rows


def _cost_row(entry: Mapping[str, Any]) -> dict[str, Any]:
    row = {key: entry[key] for key in ("stage", "outcome", "ms")}
    for kind in ("charged", "paid"):
        row |= {f"{kind}_{unit}": entry[kind].get(unit, 0) for unit in ("calls", "docs", "tokens", "usd")}
    return row
