"""How well candidates support a prompt, and which repeat each other: A3's rule without a language model (rule E9)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from math import fsum

from pydantic import Field

from ragtune.core.tokens import count_tokens
from ragtune.data.text import terms
from ragtune.superprompt.frozen import Frozen
from ragtune.superprompt.super_prompt import ContextChunk, SuperPrompt

_QUARTER = 4
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


@dataclass(frozen=True)
class Evidence:
    """Scores, coverage and support of candidates by id, and the floor for them. Any of them may be empty.

    Scores in [0, 1] are the reranker's, or Retrieval's where it compares no terms. Coverage is a share of the prompt's
    term weights.
    """

    ids: Sequence[str]
    scores: Mapping[str, float]
    coverage: Mapping[str, float]
    support: Mapping[str, float]
    floor: FloorOptions

    @classmethod
    def of(cls, sp: SuperPrompt, ids: Sequence[str], floor: FloorOptions) -> Evidence:
        found, reranked = sp.extras["retrieval"], sp.extras["reranked"]
        weights: Mapping[str, float] = found.get("term_weights") or {}
        scores: Mapping[str, float] = reranked["scores"]
        if not scores and not weights:
            scores = {chunk_id: (1.0 + cosine) / 2.0 for chunk_id, cosine in found["scores"].items()}
        known = {chunk_id: scores[chunk_id] for chunk_id in ids if chunk_id in scores}
        chunks = sp.chunks(ids) if weights else []
        covered = {chunk.id: coverage(chunk, weights, floor.rarest_terms) for chunk in chunks}
        return cls(ids, known, covered, reranked.get("support", {}), floor)

    @property
    def background(self) -> float:
        """The score of an unrelated candidate: the lower quartile, at most ``neutral_score``."""
        ordered = sorted(self.scores.values())
        return min(self.floor.neutral_score, ordered[len(ordered) // _QUARTER])

    def is_weak(self, among: Collection[str]) -> bool:
        """Return whether the candidates with these ids support the prompt only weakly, compared with all candidates."""
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
        if self.scores:
            least = self.background + self.floor.relative_score * (max(self.scores.values()) - self.background)
            above = [chunk_id for chunk_id in self.ids if self.scores.get(chunk_id, -1.0) >= least]
        elif self.coverage:
            least = self.floor.relative_coverage * max(self.coverage.values())
            above = [chunk_id for chunk_id in self.ids if self.coverage[chunk_id] >= least]
        return above[: self.floor.weak_selection] if self.is_weak(self.ids) else above


def coverage(chunk: ContextChunk, weights: Mapping[str, float], rarest_terms: int) -> float:
    """Return the weight of a chunk's terms as a share of the weight of the prompt's rarest terms, in [0, 1]."""
    whole = fsum(nlargest(rarest_terms, weights.values()))
    held = frozenset(terms(chunk.snippet))
    return min(1.0, fsum(weight for term, weight in weights.items() if term in held) / whole) if whole else 0.0


def is_trivial(text: str, min_word_tokens: int) -> bool:
    """Return whether a text has fewer tokens of words than that: empty, rules and dots, a bare heading."""
    return count_tokens(" ".join(_WORDS.findall(text))) < min_word_tokens


def duplicates(texts: Mapping[str, str], threshold: float) -> dict[str, str]:
    """Return the ids of texts that repeat an earlier text, each with the id of the first one.

    A text repeats another if they differ in case and spacing only, or if the Jaccard index of their sets of terms is at
    least ``threshold``, in (0, 1].
    """
    kept: dict[str, tuple[str, frozenset[str]]] = {}
    found: dict[str, str] = {}
    for text_id, text in texts.items():
        plain, own = " ".join(text.casefold().split()), frozenset(terms(text))
        originals = (
            other
            for other, (seen, held) in kept.items()
            if plain == seen or (own and len(own & held) >= threshold * len(own | held))
        )
        if (original := next(originals, None)) is None:
            kept[text_id] = plain, own
        else:
            found[text_id] = original
    return found


def _highest(values: Mapping[str, float], among: Collection[str]) -> float:
    return max((value for chunk_id, value in values.items() if chunk_id in among), default=0.0)
