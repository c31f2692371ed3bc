"""A3: the candidates that may serve as context (rule E9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from pydantic import Field

from ragtune.core.errors import ConfigError
from ragtune.core.request.context import CostMeter
from ragtune.superprompt.agents.agent import item_text
from ragtune.superprompt.agents.chooser import Choices, Chooser, ChooserConfig
from ragtune.superprompt.stages.support import Evidence, FloorOptions, duplicates, is_trivial
from ragtune.superprompt.frozen import Frozen
from ragtune.superprompt.limits import PipelineConfig
from ragtune.superprompt.rendering import prompt_md
from ragtune.superprompt.stages.base import AgentStage
from ragtune.superprompt.super_prompt import SuperPrompt

KEEP = "keep"
DUPLICATE = "duplicate"
OFF_TOPIC = "off-topic"

NOTHING_LEFT = "no candidate passed the gate: the prompt goes on without context"
WEAK_SUPPORT = "the documents say little about this: check the answer, or add documents that cover it"


class GateOptions(Frozen):
    """``options`` of the agent configuration.

    Attributes:
        max_candidates: size of the working set; further candidates are dropped unseen.
        min_word_tokens: texts with fewer tokens of words are trivial and dropped unseen.
        near_duplicate: similarity in (0, 1] from which the rule without a language model treats two texts as one.
        floor: thresholds of that rule, and of weak support of the kept candidates; None for no thresholds.
        tag_of: implied tag by decision.
    """

    max_candidates: int = Field(ge=1)
    min_word_tokens: int = Field(ge=0)
    near_duplicate: float = Field(gt=0.0, le=1.0)
    floor: FloorOptions | None = None
    tag_of: Mapping[str, str]


@dataclass(frozen=True)
class Gating:
    """Kept ids in the reranked order, a record by id of every decision, and whether their support is weak."""

    kept: list[str] = field(default_factory=list)
    decisions: dict[str, dict[str, Any]] = field(default_factory=dict)
    is_weak: bool = False


class A3NLIGate(AgentStage[Chooser, Gating]):
    """Keeps or drops each candidate and never changes one. Kept candidates stay in the reranked order.

    First a filter limits the working set and drops trivial candidates. Then the agent decides on each of the rest. A
    candidate without a valid decision, or dropped with less than ``min_confidence``, is kept. Without a language model
    these are dropped: exact and near duplicates of earlier candidates, and candidates below the floor
    (:mod:`ragtune.superprompt.stages.support`). A notice reports weak support either way. ``extras["a3_decisions"]``
    holds the decision on every candidate and its reason.

    Args:
        config: configuration of the agent.
        agent: the chooser; None for no language model.

    Raises:
        ConfigError: if the configuration does not choose ``decision`` (with the default ``keep``) and ``tag``.
    """

    name: ClassVar[str] = "A3_NLI_Gate"
    writes: ClassVar = frozenset({"views_by_stage", "final_selection_ids"})

    def __init__(self, config: ChooserConfig, agent: Chooser | None = None) -> None:
        super().__init__(agent)
        self.config = config
        self.options = config.options_as(GateOptions)
        if config.over != "items":
            raise ConfigError(f"agent {config.title} chooses over {config.over}: allowed is items")
        if sorted(config.fields) != ["decision", "tag"] or config.fields["decision"].default != KEEP:
            raise ConfigError(f"agent {config.title}: allowed are the fields decision, by default {KEEP!r}, and tag")
        decision, tag = config.fields["decision"], config.fields["tag"]
        for said, implied in self.options.tag_of.items():
            if said not in decision.enum or implied not in tag.enum:
                raise ConfigError(f"agent {config.title}: options.tag_of[{said!r}]={implied!r} is outside the enums")

    def has_question(self, sp: SuperPrompt, config: PipelineConfig) -> bool:
        return bool(self._working_set(sp)[0])

    def ask(self, agent: Chooser, sp: SuperPrompt, config: PipelineConfig, meter: CostMeter) -> Gating:
        ids, decisions = self._working_set(sp)
        parts = {"prompt": prompt_md(sp, config.prompt_schema)}
        items = [item_text(chunk) for chunk in sp.chunks(ids)]
        choices = dict(zip(ids, agent.choose_each(parts, items, meter), strict=True))
        decisions |= {chunk_id: self._decision(choice) for chunk_id, choice in choices.items()}
        gating = _gating(sp, decisions)
        floor = self.options.floor
        if floor is None or not gating.kept:
            return gating
        return replace(gating, is_weak=Evidence.of(sp, ids, floor.rarest_terms).is_weak(floor, gating.kept))

    def default(self, sp: SuperPrompt, config: PipelineConfig) -> Gating:
        ids, decisions = self._working_set(sp)
        texts = {chunk.id: chunk.snippet for chunk in sp.chunks(ids)}
        repeats = duplicates(texts, self.options.near_duplicate)
        for chunk_id in ids:
            decisions[chunk_id] = {"decision": KEEP, "tag": None, "by": "rule"}
            if chunk_id in repeats:
                decisions[chunk_id] |= {"decision": "drop", "tag": DUPLICATE, "of": repeats[chunk_id]}
        is_weak = self._drop_below_floor(sp, [chunk_id for chunk_id in ids if chunk_id not in repeats], decisions)
        return replace(_gating(sp, decisions), is_weak=is_weak)

    def write(self, sp: SuperPrompt, config: PipelineConfig, answer: Gating) -> None:
        sp.views_by_stage["a3"] = list(answer.kept)
        sp.final_selection_ids = list(answer.kept)
        sp.extras["a3_decisions"] = {
            "agent": self.config.agent_name,
            "version": self.config.version,
            "candidates": answer.decisions,
        }
        message = WEAK_SUPPORT if answer.is_weak else NOTHING_LEFT if answer.decisions and not answer.kept else None
        if message:
            sp.add_notice(self.name, message)

    def _drop_below_floor(self, sp: SuperPrompt, ids: list[str], decisions: dict[str, dict[str, Any]]) -> bool:
        """Mark candidates below the floor as dropped, and return whether the support is weak."""
        floor = self.options.floor
        if floor is None or not ids:
            return False
        evidence = Evidence.of(sp, ids, floor.rarest_terms)
        below = set(ids).difference(evidence.kept(floor))
        for chunk_id in below:
            decisions[chunk_id] |= {"decision": "drop", "tag": OFF_TOPIC, "because": "below the floor"}
        return evidence.is_weak(floor, ids)

    def _working_set(self, sp: SuperPrompt) -> tuple[list[str], dict[str, dict[str, Any]]]:
        """The ids to decide on, and the decisions on all other candidates."""
        left: list[str] = []
        decisions: dict[str, dict[str, Any]] = {}
        for chunk in sp.chunks(sp.views_by_stage["reranked"]):
            reason = ""
            if is_trivial(chunk.snippet, self.options.min_word_tokens):
                reason = "trivial"
            elif len(left) == self.options.max_candidates:
                reason = "beyond max_candidates"
            else:
                left.append(chunk.id)
            if reason:
                decisions[chunk.id] = {"decision": "drop", "tag": None, "by": "prefilter", "because": reason}
        return left, decisions

    def _decision(self, choices: Choices) -> dict[str, Any]:
        decision, tag = choices.fields["decision"], choices.fields["tag"]
        kept = decision.value == KEEP
        implied = self.options.tag_of.get(str(decision.value))
        return {
            "decision": KEEP if kept else "drop",
            "tag": None if kept else implied or tag.value,
            "by": "agent" if decision.reason == "agent" else "default",
            "because": decision.reason,
            "said": decision.said,
            "certainty": choices.certainty,
        }


def _gating(sp: SuperPrompt, decisions: Mapping[str, dict[str, Any]]) -> Gating:
    ranked = sp.views_by_stage["reranked"]
    kept = [chunk_id for chunk_id in ranked if decisions[chunk_id]["decision"] == KEEP]
    return Gating(kept, {chunk_id: decisions[chunk_id] for chunk_id in ranked})
