"""A3: the candidates that may serve as context (rule E9)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from math import fsum, log2, sqrt
from typing import Any, ClassVar, Self

from pydantic import Field, model_validator

from ragtune.core.request.context import CostMeter
from ragtune.core.tokens import count_tokens
from ragtune.superprompt.agents.agent import item_text
from ragtune.superprompt.agents.chooser import Choices, Chooser, ChooserConfig
from ragtune.superprompt.frozen import Frozen
from ragtune.superprompt.memory.sections import context
from ragtune.superprompt.options import PipelineConfig
from ragtune.superprompt.reading.text import terms
from ragtune.superprompt.rendering import prompt_md
from ragtune.superprompt.stages.base import AgentStage
from ragtune.superprompt.stages.reranker import odds_of
from ragtune.superprompt.super_prompt import ContextChunk, SuperPrompt

KEEP = "keep"
DUPLICATE = "duplicate"
OFF_TOPIC = "off-topic"

NOTHING_LEFT = "no candidate passed the gate: the prompt goes on without context"
WEAK_SUPPORT = "the documents say little about this: check the answer, or add documents that cover it"

_QUARTER = 4
_BEST_CHUNKS = 3
_WORDS = re.compile(r"\w+")


class FloorOptions(Frozen):
    """Thresholds for candidates, relative to the distribution over one prompt's candidates."""

    relative_score: float = Field(ge=0.0, le=1.0)
    relative_coverage: float = Field(ge=0.0, le=1.0)
    neutral_score: float = Field(ge=0.0, le=1.0)
    min_contrast: float = Field(ge=0.0, le=1.0)
    min_support: float = Field(ge=0.0, le=1.0)
    sure_coverage: float = Field(ge=0.0, le=1.0)
    min_coverage: float = Field(ge=0.0, le=1.0)
    rarest_terms: int = Field(ge=1)
    weak_selection: int = Field(ge=0)
    relative_odds: float = Field(ge=0.0, le=1.0)
    min_gain: float = Field(ge=0.0, le=1.0)
    min_evidence: float = Field(ge=0.0, le=1.0)


@dataclass(frozen=True)
class GateEvidence:
    """Scores in [0, 1], coverage and support of candidates by id, and the floor for them; any may be empty."""

    ids: Sequence[str]
    scores: Mapping[str, float]
    coverage: Mapping[str, float]
    support: Mapping[str, float]
    floor: FloorOptions
    chunks: Mapping[str, ContextChunk] = field(default_factory=dict)
    """Candidates by id, where the scores are probabilities of a fitted model."""
    mean_score: float | None = None
    """Of all chunks of the memory, where the scores are an embedder's."""

    @classmethod
    def of(cls, sp: SuperPrompt, ids: Sequence[str], floor: FloorOptions) -> GateEvidence:
        found, reranked = sp.extras["retrieval"], sp.extras["reranked"]
        weights: Mapping[str, float] = found.get("term_weights") or {}
        relevance: Mapping[str, float] = reranked.get("relevance", {})
        scores: Mapping[str, float] = relevance or reranked["scores"]
        mean_score = None if scores or "background" not in found else (1.0 + found["background"]) / 2.0
        if not scores and (mean_score is not None or not weights):
            scores = {chunk_id: (1.0 + cosine) / 2.0 for chunk_id, cosine in found["scores"].items()}
        known = {chunk_id: scores[chunk_id] for chunk_id in ids if chunk_id in scores}
        chunks = {chunk.id: chunk for chunk in sp.chunks(ids)}
        covered = {i: coverage(chunk, weights, floor.rarest_terms) for i, chunk in chunks.items()} if weights else {}
        return cls(ids, known, covered, reranked.get("support", {}), floor, chunks if relevance else {}, mean_score)

    @property
    def background(self) -> float:
        """The score of an unrelated chunk: the mean, else the lower quartile but at most ``neutral_score``."""
        if self.mean_score is not None:
            return self.mean_score
        ordered = sorted(self.scores.values())
        return min(self.floor.neutral_score, ordered[len(ordered) // _QUARTER])

    def is_weak(self, among: Collection[str]) -> bool:
        """Return whether the candidates with these ids support the prompt only weakly, compared with all candidates."""
        if self.chunks:
            evidence = {i: score * self.coverage.get(i, 1.0) for i, score in self.scores.items()}
            return _highest(evidence, among) < self.floor.min_evidence
        most = _highest(self.coverage, among)
        if not self.scores:
            return bool(self.coverage) and most < self.floor.min_coverage
        if self.support:
            is_low = _highest(self.support, among) < self.floor.min_support
        else:
            is_low = _highest(self.scores, among) - self.background < self.floor.min_contrast
        return is_low and most < self.floor.sure_coverage

    def kept(self) -> list[str]:
        above = list(self.ids)
        if self.chunks:
            above = self._gaining()
        elif values := self.scores or self.coverage:
            share = self.floor.relative_score if self.scores else self.floor.relative_coverage
            low, most = (self.background if self.scores else 0.0), max(values.values())
            above = [chunk_id for chunk_id in self.ids if values.get(chunk_id, -1.0) >= low + share * (most - low)]
        return above[: self.floor.weak_selection] if self.is_weak(self.ids) else above

    def _gaining(self) -> list[str]:
        """Candidates that add enough: weighted probability times the share of terms that no kept candidate has."""
        odds = self._odds()
        least = min(1.0, self.floor.relative_odds * max(odds.values(), default=0.0))
        held = {chunk_id: frozenset(terms(chunk.snippet)) for chunk_id, chunk in self.chunks.items()}
        kept: list[str] = []
        for chunk_id, own in held.items():
            its_odds = odds.get(chunk_id, 0.0)
            known = max((len(own & held[other]) / max(1, len(own)) for other in kept), default=0.0)
            gain = its_odds / (1.0 + its_odds) * (1.0 - known)
            if its_odds >= least and (not kept or gain >= self.floor.min_gain * log2(2 + len(kept))):
                kept.append(chunk_id)
        return kept

    def _odds(self) -> dict[str, float]:
        """The odds of P(relevant), times the root of how much of its document is relevant, as a share of the best."""
        found: dict[str, list[float]] = {}
        for chunk_id, probability in self.scores.items():
            found.setdefault(self.chunks[chunk_id].doc_id, []).append(probability)
        sums = {document: fsum(nlargest(_BEST_CHUNKS, each)) for document, each in found.items()}
        most = max(sums.values(), default=0.0) or 1.0
        shares = {chunk_id: sums[self.chunks[chunk_id].doc_id] / most for chunk_id in self.scores}
        return {i: odds_of(p) * sqrt(shares[i]) for i, p in self.scores.items()}


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


class A3NLIGate(AgentStage[GateConfig, Chooser, Gating]):
    """Keeps or drops each candidate in its order; without a model, duplicates and what is below the floor go."""

    name: ClassVar[str] = "A3_NLI_Gate"

    def has_question(self, sp: SuperPrompt) -> bool:
        return bool(self._working_set(sp)[0])

    def ask(self, agent: Chooser, sp: SuperPrompt, config: PipelineConfig, meter: CostMeter) -> Gating:
        ids, decisions = self._working_set(sp)
        parts = {"prompt": prompt_md(sp, config.prompt_schema)}
        items = [item_text(chunk) for chunk in sp.chunks(ids)]
        choices = zip(ids, agent.choose_each(parts, items, meter), strict=True)
        decisions |= {chunk_id: self._decision(choice) for chunk_id, choice in choices}
        kept = [chunk_id for chunk_id in ids if decisions[chunk_id]["decision"] == KEEP]
        evidence = GateEvidence.of(sp, ids, self.config.floor)
        return Gating(decisions, is_weak=bool(kept) and evidence.is_weak(kept))

    def default(self, sp: SuperPrompt, config: PipelineConfig) -> Gating:
        ids, decisions = self._working_set(sp)
        texts = {chunk.id: chunk.snippet for chunk in sp.chunks(ids)}
        repeats = duplicates(texts, self.config.near_duplicate)
        single = [chunk_id for chunk_id in ids if chunk_id not in repeats]
        evidence = GateEvidence.of(sp, single, self.config.floor)
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
            is_trivial = count_tokens(" ".join(_WORDS.findall(chunk.snippet))) < self.config.min_word_tokens
            if is_trivial or len(left) == self.config.max_candidates:
                reason = "trivial" if is_trivial else "beyond max_candidates"
                decisions[chunk.id] = {"decision": "drop", "tag": None, "by": "prefilter", "because": reason}
            else:
                left.append(chunk.id)
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


def coverage(chunk: ContextChunk, weights: Mapping[str, float], rarest_terms: int) -> float:
    """Return the weight of a chunk's terms as a share of the weight of the prompt's rarest terms, in [0, 1]."""
    whole = fsum(nlargest(rarest_terms, weights.values()))
    held = frozenset(terms(f"{context(chunk)} {chunk.snippet}"))
    return min(1.0, fsum(weight for term, weight in weights.items() if term in held) / whole) if whole else 0.0


def duplicates(texts: Mapping[str, str], threshold: float) -> dict[str, str]:
    """Ids of texts that repeat an earlier one (its id is the value), by terms with a Jaccard index of ``threshold``."""
    kept: dict[str, tuple[str, frozenset[str]]] = {}
    found: dict[str, str] = {}
    for text_id, text in texts.items():
        plain, own = " ".join(text.casefold().split()), frozenset(terms(text))
        for other, (seen, held) in kept.items():
            if plain == seen or (own and len(own & held) >= threshold * len(own | held)):
                found[text_id] = other
                break
        else:
            kept[text_id] = plain, own
    return found


def _highest(values: Mapping[str, float], among: Collection[str]) -> float:
    return max((value for chunk_id, value in values.items() if chunk_id in among), default=0.0)
