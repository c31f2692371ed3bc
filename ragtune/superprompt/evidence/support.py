"""How well candidates carry a prompt: what A3 goes by without a language model (rule E9)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from math import fsum

from pydantic import BaseModel, ConfigDict, Field

from ragtune.data.text import terms
from ragtune.superprompt.chunks import ContextChunk
from ragtune.superprompt.super_prompt import SuperPrompt

_QUARTER = 4


class FloorOptions(BaseModel):
    """What a candidate must have to be kept, all by the distribution over one prompt's candidates.

    Attributes:
        relative_score: how far above the background a score must be, as a share of the best score's height above it.
        relative_coverage: the same without scores: the least share of the best candidate's coverage.
        neutral_score: a background is never taken to be higher than that, in [0, 1].
        min_contrast: support is weak where the best score is less than that above the background, in [0, 1], ...
        min_support: ... or, where the rerank stage says how far candidates carry the prompt, none does so far, ...
        sure_coverage: ... unless one candidate covers that much of the prompt, in [0, 1].
        min_coverage: without scores, support is weak where no candidate covers that much, in [0, 1].
        rarest_terms: coverage is counted over so many of the rarest terms, or a long prompt would have none.
        weak_selection: the most candidates that are kept where support is weak.
    """

    relative_score: float = Field(ge=0.0, le=1.0)
    relative_coverage: float = Field(ge=0.0, le=1.0)
    neutral_score: float = Field(ge=0.0, le=1.0)
    min_contrast: float = Field(ge=0.0, le=1.0)
    min_support: float = Field(ge=0.0, le=1.0)
    sure_coverage: float = Field(ge=0.0, le=1.0)
    min_coverage: float = Field(ge=0.0, le=1.0)
    rarest_terms: int = Field(ge=1)
    weak_selection: int = Field(ge=0)

    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True)
class Evidence:
    """What is known of the candidates.

    Attributes:
        ids: the candidates in their order.
        scores: score in [0, 1] by id: the reranker's, or, of vectors that know no terms, Retrieval's; may be empty.
        coverage: share of the prompt's term weights that each holds, in [0, 1]; empty where terms have no weights.
        support: how far each carries the prompt, at most 1; empty where the rerank stage does not say so.
    """

    ids: Sequence[str]
    scores: Mapping[str, float]
    coverage: Mapping[str, float]
    support: Mapping[str, float]

    @classmethod
    def of(cls, sp: SuperPrompt, ids: Sequence[str], rarest_terms: int) -> Evidence:
        """The evidence that Retrieval and ReRanker left in the SuperPrompt."""
        found = sp.extras.get("retrieval", {})
        weights: Mapping[str, float] = found.get("term_weights") or {}
        reranked = sp.extras.get("reranked", {})
        scores: Mapping[str, float] = reranked.get("scores", {})
        if not scores and not weights:
            scores = {chunk_id: (1.0 + cosine) / 2.0 for chunk_id, cosine in found.get("scores", {}).items()}
        known = {chunk_id: scores[chunk_id] for chunk_id in ids if chunk_id in scores}
        chunks = sp.chunks(ids) if weights else []
        covered = {chunk.id: coverage(chunk, weights, rarest_terms) for chunk in chunks}
        return cls(ids, known, covered, reranked.get("support", {}))

    def background(self, options: FloorOptions) -> float:
        """What a score is that means nothing: the candidates' lower quartile, at most ``neutral_score``."""
        ordered = sorted(self.scores.values())
        return min(options.neutral_score, ordered[len(ordered) // _QUARTER])

    def is_weak(self, options: FloorOptions, among: Collection[str]) -> bool:
        """Whether the candidates among those ids say little about the prompt; they are some of all, which are what is
        usual for it.
        """
        most = _highest(self.coverage, among)
        if not self.scores:
            return bool(self.coverage) and most < options.min_coverage
        if self.support:
            return _highest(self.support, among) < options.min_support and most < options.sure_coverage
        contrast = _highest(self.scores, among) - self.background(options)
        return contrast < options.min_contrast and most < options.sure_coverage

    def kept(self, options: FloorOptions) -> list[str]:
        """Ids above the floor, in their order."""
        if self.scores:
            low = self.background(options)
            least = low + options.relative_score * (max(self.scores.values()) - low)
            above = [chunk_id for chunk_id in self.ids if self.scores.get(chunk_id, -1.0) >= least]
        elif self.coverage:
            least = options.relative_coverage * max(self.coverage.values())
            above = [chunk_id for chunk_id in self.ids if self.coverage[chunk_id] >= least]
        else:
            above = list(self.ids)
        return above[: options.weak_selection] if self.is_weak(options, self.ids) else above


def _highest(values: Mapping[str, float], among: Collection[str]) -> float:
    return max((value for chunk_id, value in values.items() if chunk_id in among), default=0.0)


def coverage(chunk: ContextChunk, weights: Mapping[str, float], rarest_terms: int) -> float:
    """Share of the weight of a prompt's rarest terms that a chunk holds, in [0, 1]; other terms of it count as well."""
    whole = fsum(nlargest(rarest_terms, weights.values()))
    held = frozenset(terms(chunk.snippet))
    return min(1.0, fsum(weight for term, weight in weights.items() if term in held) / whole) if whole else 0.0
