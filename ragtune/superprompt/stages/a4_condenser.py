"""A4: the selection condensed, and cut down to the budget (rule E10)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from ragtune.canonical import CompressPolicy
from ragtune.core.errors import ConfigError
from ragtune.core.request.context import CostMeter
from ragtune.core.tokens import count_tokens
from ragtune.superprompt.agents.config import WriterConfig
from ragtune.superprompt.agents.options import stage_options
from ragtune.superprompt.agents.sections import into_sections, sectioned
from ragtune.superprompt.agents.texts import item_text
from ragtune.superprompt.agents.writer import Writer
from ragtune.superprompt.evidence.citations import without_false_citations
from ragtune.superprompt.evidence.extractive import extract, unmentioned
from ragtune.superprompt.limits import PipelineConfig
from ragtune.superprompt.reading.formats import without_format
from ragtune.superprompt.reading.pieces import normalized_query
from ragtune.superprompt.reading.stopwords import content_words
from ragtune.superprompt.rendering import prompt_md
from ragtune.superprompt.stages.a3_nli_gate import WEAK_SUPPORT
from ragtune.superprompt.stages.agent import AgentStage
from ragtune.superprompt.super_prompt import SuperPrompt

NO_CONTEXT = "No context was selected: nothing in conversation or memory may be relied on for this prompt."

LITTLE = "The documents say little about this."


class CondenserOptions(BaseModel):
    """``options`` of the agent configuration.

    Attributes:
        max_attachment_tokens: the most tokens of all selected chunks together.
        window: neighbours of each sentence that the rule without a language model takes.
        relative_coverage: how much of the prompt's terms a sentence must cover for that rule, as a share of what the
            best sentence covers.
        max_quoted: the most sources that it quotes, the first ones; all are attached in full anyway.
        max_unmentioned: words of the task that it reports as not in the context.
        task_words: further words that it does not report: they say how to answer, not what about.
        cues: words by section that give a sentence away, for the rule without a language model.
    """

    max_attachment_tokens: int = Field(ge=1)
    window: int = Field(ge=0)
    relative_coverage: float = Field(default=0.0, ge=0.0, le=1.0)
    max_quoted: int | None = Field(default=None, ge=1)
    max_unmentioned: int = Field(ge=0)
    task_words: frozenset[str] = frozenset()
    cues: Mapping[str, tuple[str, ...]]

    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True)
class Condensed:
    """The outcome of condensing.

    Attributes:
        text: S_CTX_MD; never empty.
        ids: the final selection, in A3's order; the n-th is source ``[n]`` of the text.
        is_shortened: whether the text lost lines to its limit.
        scores: relevance in [0, 1] by id, as far as the agent gave it.
        calls: number of questions that the agent was asked.
        rejected: lines of the agent's that cite no source that there is.
    """

    text: str
    ids: list[str]
    is_shortened: bool = False
    scores: dict[str, float] = field(default_factory=dict)
    calls: int = 0
    rejected: tuple[str, ...] = ()


class A4Condenser(AgentStage[Writer, Condensed]):
    """Writes S_CTX_MD from the selection, and trims the selection to N3 ids and ``max_attachment_tokens``.

    The most relevant stay: by the agent's scores, unscored ones behind, ties by A3's order, each taken if it still
    fits. Where that leaves some out, the agent is asked again with what stays, so that S_CTX_MD rests on the final
    selection only and its ``[n]`` is attachment n. Without a language model the first ones stay, and S_CTX_MD quotes
    of each the sentence that matches the prompt best, sorted into the sections by cue words. An empty selection is said
    to be empty, and no one is asked. ``extras["a4_decisions"]`` holds scores and what was trimmed.

    Args:
        config: configuration of the agent.
        agent: the writer; None for no language model.

    Raises:
        ConfigError: if a cue names a section that there is not.
    """

    name: ClassVar[str] = "A4_Condenser"
    requires: ClassVar = "a3"
    completes: ClassVar = "a4"
    writes: ClassVar = frozenset({"views_by_stage", "final_selection_ids", "s_ctx_md", "prompt_ready"})

    def __init__(self, config: WriterConfig, agent: Writer | None = None) -> None:
        super().__init__(agent)
        self.config = config
        self.options = stage_options(config, CondenserOptions)
        if strangers := [name for name in self.options.cues if name not in config.sections]:
            allowed = ", ".join(config.sections)
            raise ConfigError(f"agent {config.title}: options.cues[{strangers[0]!r}]: allowed are {allowed}")

    def has_question(self, sp: SuperPrompt, config: PipelineConfig) -> bool:
        return bool(sp.final_selection_ids)

    def ask(self, agent: Writer, sp: SuperPrompt, config: PipelineConfig, meter: CostMeter) -> Condensed:
        parts = {"prompt": prompt_md(sp, config.prompt_schema)}
        items = [item_text(chunk) for chunk in sp.chunks(sp.final_selection_ids)]
        shown = sp.final_selection_ids[: agent.fitting(parts, items)]
        written = agent.write(parts, items[: len(shown)], meter)
        scores = {shown[place]: score for place, score in written.scores.items()}
        kept = self._trim(sp, shown, scores, config)
        if not kept:
            return Condensed(NO_CONTEXT, [], scores=scores, calls=1)
        calls = 1
        if kept != shown:
            written = agent.write(parts, [item_text(chunk) for chunk in sp.chunks(kept)], meter)
            calls = 2
        text, rejected = self._cited(written.text, len(kept), _little(sp))
        return Condensed(text, kept, written.is_shortened, scores, calls, tuple(rejected))

    def default(self, sp: SuperPrompt, config: PipelineConfig) -> Condensed:
        kept = self._trim(sp, sp.final_selection_ids, {}, config)
        if not kept:
            return Condensed(NO_CONTEXT, [])
        chunks = sp.chunks(kept)
        policy = CompressPolicy(method="windows", window=self.options.window, max_tokens=self.config.max_text_tokens)
        words = content_words(without_format(normalized_query(sp.body)))
        subject = " ".join(word for word, _ in words if word not in config.request_words)
        least = self.options.relative_coverage
        quoted = chunks[: self.options.max_quoted]
        lines = extract(subject, quoted, self.config.sections, self.options.cues, policy, least)
        lines[self.config.sections[-1]] += _little(sp)
        question = without_format(sp.body.get("task", ""))
        ignored = self.options.task_words | config.request_words
        missing = unmentioned(question, chunks, ignored)[: self.options.max_unmentioned]
        if missing:
            lines[self.config.sections[-1]].append(f"- Not mentioned in the context: {', '.join(missing)}")
        text, is_shortened = sectioned(lines, self.config.max_text_tokens)
        return Condensed(text, kept, is_shortened)

    def write(self, sp: SuperPrompt, config: PipelineConfig, answer: Condensed) -> None:
        trimmed = [chunk_id for chunk_id in sp.final_selection_ids if chunk_id not in answer.ids]
        sp.s_ctx_md = answer.text
        sp.final_selection_ids = list(answer.ids)
        sp.views_by_stage["a4"] = list(answer.ids)
        log: dict[str, Any] = {"agent": self.config.agent_name, "version": self.config.version}
        log |= {"scores": answer.scores, "trimmed": trimmed, "calls": answer.calls, "shortened": answer.is_shortened}
        if answer.rejected:
            log["rejected"] = list(answer.rejected)
        sp.extras["a4_decisions"] = log

    def _cited(self, text: str, sources: int, further: Sequence[str]) -> tuple[str, list[str]]:
        """A model's sections with citations of the sources only, further open issues, and the lines that went."""
        checked, rejected = without_false_citations(text, sources)
        lines = into_sections(checked, self.config.sections)
        lines[self.config.sections[-1]] += further
        return sectioned(lines, self.config.max_text_tokens)[0], rejected

    def _trim(
        self, sp: SuperPrompt, ids: Sequence[str], scores: Mapping[str, float], config: PipelineConfig
    ) -> list[str]:
        """The ids that stay, in the order given."""
        left = self.options.max_attachment_tokens
        chosen: set[str] = set()
        for chunk in sp.chunks(sorted(ids, key=lambda chunk_id: -scores.get(chunk_id, -1.0))):
            size = count_tokens(chunk.snippet)
            if len(chosen) < config.limits.n3_final_selection_max and size <= left:
                chosen.add(chunk.id)
                left -= size
        return [chunk_id for chunk_id in ids if chunk_id in chosen]


def _little(sp: SuperPrompt) -> list[str]:
    """The open issue that the documents say little, where A3 found so."""
    return [f"- {LITTLE}"] if any(n["message"] == WEAK_SUPPORT for n in sp.extras.get("notices", [])) else []
