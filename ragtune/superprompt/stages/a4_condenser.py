"""A4: condenses the selection and cuts it to the budget (rule E10)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Self

from pydantic import Field, model_validator

from ragtune.canonical import CompressPolicy
from ragtune.core.request.context import CostMeter
from ragtune.core.tokens import count_tokens
from ragtune.superprompt.agents.agent import item_text
from ragtune.superprompt.agents.writer import Writer, WriterConfig, into_sections, sectioned
from ragtune.superprompt.options import PipelineConfig
from ragtune.superprompt.reading.formats import without_format
from ragtune.superprompt.rendering import prompt_md, subject_words
from ragtune.superprompt.stages.a3_nli_gate import WEAK_SUPPORT
from ragtune.superprompt.stages.base import AgentStage
from ragtune.superprompt.stages.quotes import extract, unmentioned, without_false_citations
from ragtune.superprompt.super_prompt import SuperPrompt

NO_CONTEXT = "No context was selected: nothing in conversation or memory may be relied on for this prompt."

LITTLE = "The documents say little about this."


class CondenserConfig(WriterConfig):
    """The writer of S_CTX_MD, and the limits of the rule without a language model."""

    max_attachment_tokens: int = Field(ge=1)
    max_quoted: int = Field(ge=1)
    max_unmentioned: int = Field(ge=0)
    task_words: frozenset[str] = frozenset()
    cues: Mapping[str, tuple[str, ...]]

    @model_validator(mode="after")
    def _cues_of_sections(self) -> Self:
        if strangers := [name for name in self.cues if name not in self.sections]:
            raise ValueError(f"cues[{strangers[0]!r}]: allowed are {', '.join(self.sections)}")
        return self


@dataclass(frozen=True)
class Condensed:
    """S_CTX_MD, the final selection with the n-th as source ``[n]``, the agent's scores, and rejected lines."""

    text: str
    ids: list[str]
    scores: dict[str, float] = field(default_factory=dict)
    rejected: list[str] = field(default_factory=list)


class A4Condenser(AgentStage[Writer, Condensed]):
    """Writes S_CTX_MD from the selection, and trims the selection to N3 ids and ``max_attachment_tokens``.

    The most relevant chunks stay, each if it still fits. If some do not, the agent is asked again with the rest, so
    S_CTX_MD rests on the final selection and its ``[n]`` is attachment n. Without a model S_CTX_MD quotes them.
    """

    name: ClassVar[str] = "A4_Condenser"
    writes: ClassVar = frozenset({"views_by_stage", "final_selection_ids", "s_ctx_md", "prompt_ready"})

    def __init__(self, config: CondenserConfig, agent: Writer | None = None) -> None:
        super().__init__(agent)
        self.config = config

    def has_question(self, sp: SuperPrompt) -> bool:
        return bool(sp.final_selection_ids)

    def ask(self, agent: Writer, sp: SuperPrompt, config: PipelineConfig, meter: CostMeter) -> Condensed:
        parts = {"prompt": prompt_md(sp, config.prompt_schema)}
        items = [item_text(chunk) for chunk in sp.chunks(sp.final_selection_ids)]
        shown = sp.final_selection_ids[: agent.fitting(parts, items)]
        written, by_place = agent.write(parts, items[: len(shown)], meter)
        scores = {shown[place]: score for place, score in by_place.items()}
        kept = self._trim(sp, shown, scores, config)
        if not kept:
            return Condensed(NO_CONTEXT, [], scores)
        if kept != shown:
            written, _ = agent.write(parts, [item_text(chunk) for chunk in sp.chunks(kept)], meter)
        text, rejected = self._cited(written, len(kept), _little(sp))
        return Condensed(text, kept, scores, rejected)

    def default(self, sp: SuperPrompt, config: PipelineConfig) -> Condensed:
        kept = self._trim(sp, sp.final_selection_ids, {}, config)
        if not kept:
            return Condensed(NO_CONTEXT, [])
        chunks = sp.chunks(kept)
        policy = CompressPolicy(method="windows", window=0, max_tokens=self.config.max_text_tokens)
        subject = " ".join(word for word, _ in subject_words(sp.body, config.request_words))
        quoted = chunks[: self.config.max_quoted]
        lines = extract(subject, quoted, self.config.sections, self.config.cues, policy)
        lines[self.config.sections[-1]] += _little(sp)
        question = without_format(sp.body.get("task", ""))
        ignored = self.config.task_words.union(config.request_words)
        missing = unmentioned(question, chunks, ignored)[: self.config.max_unmentioned]
        if missing:
            lines[self.config.sections[-1]].append(f"- Not mentioned in the context: {', '.join(missing)}")
        return Condensed(sectioned(lines, self.config.max_text_tokens), kept)

    def write(self, sp: SuperPrompt, config: PipelineConfig, answer: Condensed) -> None:
        trimmed = [chunk_id for chunk_id in sp.final_selection_ids if chunk_id not in answer.ids]
        sp.s_ctx_md = answer.text
        sp.final_selection_ids = list(answer.ids)
        sp.views_by_stage["a4"] = list(answer.ids)
        sp.extras["a4_decisions"] = self.config.log() | {
            "scores": answer.scores,
            "trimmed": trimmed,
            "rejected": answer.rejected,
        }

    def _cited(self, text: str, sources: int, further: Sequence[str]) -> tuple[str, list[str]]:
        """A model's sections with valid citations and further open issues, and the removed lines."""
        checked, rejected = without_false_citations(text, sources)
        lines = into_sections(checked, self.config.sections)
        lines[self.config.sections[-1]] += further
        return sectioned(lines, self.config.max_text_tokens), rejected

    def _trim(
        self, sp: SuperPrompt, ids: Sequence[str], scores: Mapping[str, float], config: PipelineConfig
    ) -> list[str]:
        left = self.config.max_attachment_tokens
        chosen: set[str] = set()
        for chunk in sp.chunks(sorted(ids, key=lambda chunk_id: -scores.get(chunk_id, -1.0))):
            size = count_tokens(chunk.snippet)
            if len(chosen) < config.limits.n3_final_selection_max and size <= left:
                chosen.add(chunk.id)
                left -= size
        return [chunk_id for chunk_id in ids if chunk_id in chosen]


def _little(sp: SuperPrompt) -> list[str]:
    return [f"- {LITTLE}"] if any(n["message"] == WEAK_SUPPORT for n in sp.extras.get("notices", [])) else []
