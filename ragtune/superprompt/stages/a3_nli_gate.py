"""A3: the candidates that may serve as context (rule E9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from pydantic import Field, model_validator

from ragtune.core.request.context import CostMeter
from ragtune.superprompt.agents.agent import item_text
from ragtune.superprompt.agents.chooser import Choices, Chooser, ChooserConfig
from ragtune.superprompt.options import PipelineConfig
from ragtune.superprompt.rendering import prompt_md
from ragtune.superprompt.stages.base import AgentStage
from ragtune.superprompt.stages.support import Evidence, FloorOptions, duplicates, is_trivial
from ragtune.superprompt.super_prompt import SuperPrompt

KEEP = "keep"
DUPLICATE = "duplicate"
OFF_TOPIC = "off-topic"

NOTHING_LEFT = "no candidate passed the gate: the prompt goes on without context"
WEAK_SUPPORT = "the documents say little about this: check the answer, or add documents that cover it"


class GateConfig(ChooserConfig):
    """The chooser of ``decision`` and ``tag``, and the thresholds of the rules beside it."""

    max_candidates: int = Field(ge=1)
    min_word_tokens: int = Field(ge=0)
    near_duplicate: float = Field(gt=0.0, le=1.0)
    floor: FloorOptions
    tag_of: Mapping[str, str]

    @model_validator(mode="after")
    def _decision_and_tag(self) -> Self:
        if sorted(self.fields) != ["decision", "tag"] or self.fields["decision"].default != KEEP:
            raise ValueError(f"allowed are the fields decision, by default {KEEP!r}, and tag")
        for said, implied in self.tag_of.items():
            if said not in self.fields["decision"].enum or implied not in self.fields["tag"].enum:
                raise ValueError(f"tag_of[{said!r}]={implied!r} is outside the enums")
        return self


@dataclass(frozen=True)
class Gating:
    """A record by id of every decision, and whether the support of what is kept is weak."""

    decisions: Mapping[str, dict[str, Any]]
    is_weak: bool


class A3NLIGate(AgentStage[Chooser, Gating]):
    """Keeps or drops each candidate and never changes one. Kept candidates stay in the reranked order.

    A filter limits the working set and drops trivial candidates. The agent decides on the rest. Without a model
    duplicates and candidates below the floor (:mod:`ragtune.superprompt.stages.support`) are dropped.
    """

    name: ClassVar[str] = "A3_NLI_Gate"
    writes: ClassVar = frozenset({"views_by_stage", "final_selection_ids"})

    def __init__(self, config: GateConfig, agent: Chooser | None = None) -> None:
        super().__init__(agent)
        self.config = config

    def has_question(self, sp: SuperPrompt) -> bool:
        return bool(self._working_set(sp)[0])

    def ask(self, agent: Chooser, sp: SuperPrompt, config: PipelineConfig, meter: CostMeter) -> Gating:
        ids, decisions = self._working_set(sp)
        parts = {"prompt": prompt_md(sp, config.prompt_schema)}
        items = [item_text(chunk) for chunk in sp.chunks(ids)]
        choices = zip(ids, agent.choose_each(parts, items, meter), strict=True)
        decisions |= {chunk_id: self._decision(choice) for chunk_id, choice in choices}
        kept = [chunk_id for chunk_id in ids if decisions[chunk_id]["decision"] == KEEP]
        evidence = Evidence.of(sp, ids, self.config.floor)
        return Gating(decisions, is_weak=bool(kept) and evidence.is_weak(kept))

    def default(self, sp: SuperPrompt, config: PipelineConfig) -> Gating:
        ids, decisions = self._working_set(sp)
        texts = {chunk.id: chunk.snippet for chunk in sp.chunks(ids)}
        repeats = duplicates(texts, self.config.near_duplicate)
        single = [chunk_id for chunk_id in ids if chunk_id not in repeats]
        evidence = Evidence.of(sp, single, self.config.floor)
        above = evidence.kept() if single else []
        for chunk_id in ids:
            decisions[chunk_id] = {"decision": KEEP, "tag": None, "by": "rule"}
            if chunk_id in repeats:
                decisions[chunk_id] |= {"decision": "drop", "tag": DUPLICATE, "of": repeats[chunk_id]}
            elif chunk_id not in above:
                decisions[chunk_id] |= {"decision": "drop", "tag": OFF_TOPIC, "because": "below the floor"}
        return Gating(decisions, is_weak=bool(single) and evidence.is_weak(single))

    def write(self, sp: SuperPrompt, config: PipelineConfig, answer: Gating) -> None:
        decisions = {chunk_id: answer.decisions[chunk_id] for chunk_id in sp.views_by_stage["reranked"]}
        kept = [chunk_id for chunk_id, decision in decisions.items() if decision["decision"] == KEEP]
        sp.views_by_stage["a3"] = kept
        sp.final_selection_ids = list(kept)
        sp.extras["a3_decisions"] = self.config.log() | {"candidates": decisions}
        message = WEAK_SUPPORT if answer.is_weak else NOTHING_LEFT if decisions and not kept else None
        if message:
            sp.add_notice(self.name, message)

    def _working_set(self, sp: SuperPrompt) -> tuple[list[str], dict[str, dict[str, Any]]]:
        """The ids to decide on, and the decisions on all other candidates."""
        left: list[str] = []
        decisions: dict[str, dict[str, Any]] = {}
        for chunk in sp.chunks(sp.views_by_stage["reranked"]):
            reason = ""
            if is_trivial(chunk.snippet, self.config.min_word_tokens):
                reason = "trivial"
            elif len(left) == self.config.max_candidates:
                reason = "beyond max_candidates"
            else:
                left.append(chunk.id)
            if reason:
                decisions[chunk.id] = {"decision": "drop", "tag": None, "by": "prefilter", "because": reason}
        return left, decisions

    def _decision(self, choices: Choices) -> dict[str, Any]:
        decision, tag = choices.fields["decision"], choices.fields["tag"]
        kept = decision.value == KEEP
        implied = self.config.tag_of.get(str(decision.value))
        return {
            "decision": KEEP if kept else "drop",
            "tag": None if kept else implied or tag.value,
            "by": "agent" if decision.reason == "agent" else "default",
            "because": decision.reason,
            "said": decision.said,
            "certainty": choices.certainty,
        }
