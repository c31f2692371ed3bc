"""Whether scores are on the scale that was declared for them: those of a table, and those of a live reranker."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ragtune.core.arrays import FloatArray
from ragtune.core.request.context import RAGtuneContext
from ragtune.rerankers.scale import ScoreScale

ENOUGH = 20
"""Scores from which a table says on which scale they are."""

FIRST_SCORES = 200
"""Scores of a live reranker that are looked at, and scores from which their sign says something."""

SCALE_DOUBT = "scale_doubt"
"""Action of the event that doubts the scale of a live reranker, with the doubt in words."""

_ALMOST_ALL = 0.99
"""A share that a few odd scores, such as a probability of 1.0001, do not change."""

_NEAR_ZERO = -1.0
"""Log probabilities of the best documents lie above this: the model gives half of them more than exp(-1) = .37."""

_SURELY_LOG = -0.1
"""Best scores above this are those of log probabilities: five tables of monoT5 have medians of -.005 to -.014."""

_BY_ORDER = "if only their order counts"


class Verdict(NamedTuple):
    """What scores say of the scale that was declared.

    Attributes:
        words: what is wrong with it, as the end of a sentence about the scores.
        is_sure: whether the scores cannot be on it; else it is a doubt.
    """

    words: str
    is_sure: bool = False


class Sample:
    """Scores whose scale is asked for. Shares and quantiles count, since one odd score says nothing.

    Args:
        scores: shape (n,), n >= 1.
        best: shape (b,), the best score of each query, or of each batch.
    """

    def __init__(self, scores: FloatArray, best: FloatArray) -> None:
        self._scores = scores
        self.typical_best = float(np.median(best))
        self._low, self._middle, self._high = np.quantile(scores, [0.05, 0.5, 0.99]).tolist()

    def within(self, low: float, high: float = np.inf) -> bool:
        """Whether almost all scores lie there."""
        return float(((self._scores >= low) & (self._scores <= high)).mean()) >= _ALMOST_ALL

    def looks_like(self) -> ScoreScale:
        """The scale that the scores seem to be on.

        - ``log_prob``: almost all at most 0, and the best score of the median query is near 0;
        - ``identity``: almost all in [0, 1]. Cosines may lie there too, and no check can tell them apart for sure;
        - ``cosine``: almost all in [-1, 1];
        - ``logit``: anything else.
        """
        if self.within(-np.inf, 0.0):
            return ScoreScale.LOG_PROB if self.typical_best > _NEAR_ZERO else ScoreScale.LOGIT
        if self.within(0.0, 1.0):
            return ScoreScale.IDENTITY
        return ScoreScale.COSINE if self.within(-1.0, 1.0 + 1e-6) else ScoreScale.LOGIT

    def against(self, declared: ScoreScale, option: str = "scale") -> Verdict | None:
        """What the scores say against a scale; None where they may be on it.

        Args:
            declared: the scale that was asked for.
            option: the name of the option that chooses the scale.
        """
        seen = self.looks_like()
        if declared is ScoreScale.RANK or len(self._scores) < ENOUGH or np.ptp(self._scores) == 0.0:
            return None
        if seen is ScoreScale.LOG_PROB and declared is not ScoreScale.LOG_PROB:
            if declared is not ScoreScale.LOGIT or self._are_surely_log:
                words = f"at most 0, and the best of the queries are near 0: these are log probabilities, use {option}"
                return Verdict(f"{words}=log_prob", is_sure=True)
            return Verdict(
                f"at most 0, and the best are near 0: if they are log probabilities use {option}=log_prob, {_BY_ORDER} "
                "rank"
            )
        if declared is ScoreScale.LOGIT:
            return self._against_logit(seen, option)
        if declared is ScoreScale.LOG_PROB and seen is ScoreScale.LOGIT:
            return Verdict(
                f"at most 0, but even the best are far below 0: if they are logits use {option}=logit, {_BY_ORDER} rank"
            )
        if declared is ScoreScale.COSINE and seen is ScoreScale.IDENTITY and self._are_rather_probabilities:
            return Verdict(f"in [0, 1], from near 0 to near 1: if they are probabilities use {option}=identity")
        return None

    def _against_logit(self, seen: ScoreScale, option: str) -> Verdict | None:
        if seen is ScoreScale.IDENTITY:
            words = f"in [0, 1], so they are no logits: use {option}=identity for probabilities, or cosine"
            return Verdict(words, is_sure=True)
        if seen is ScoreScale.COSINE:
            return Verdict(f"in [-1, 1]: logits are rarely that small; {option}=cosine fits as well")
        if len(self._scores) >= FIRST_SCORES and self.within(0.0):
            return Verdict(
                "at least 0, and logits below 0 mean documents that are rather not relevant: divide percentages or "
                f"grades by the highest one and use {option}=identity; {_BY_ORDER} (as of BM25) use rank"
            )
        return None

    @property
    def _are_surely_log(self) -> bool:
        """Massed near 0, or with the long tail that only logarithms have; short distances below 0 are neither."""
        return self.typical_best > _SURELY_LOG and (self._middle > 2.0 * _SURELY_LOG or self._low < -4.0)

    @property
    def _are_rather_probabilities(self) -> bool:
        """Cosines of one model with different texts are neither massed near 0 nor spread from 0 to 1."""
        return float((self._scores < 0.01).mean()) > 0.1 or (self._low < 0.25 and self._high > 0.9)


class ScaleWatch:
    """Looks at the first scores of a live reranker, and doubts their scale once; thread-safe.

    A paid run is never ended for it: the doubt is an event of the request that brought the last of these scores.

    Args:
        declared: the scale of the reranker.
    """

    def __init__(self, declared: ScoreScale) -> None:
        self._declared = declared
        self._lock = threading.Lock()
        self._scores: list[float] | None = []
        self._best: list[float] = []

    def see(self, scores: Iterable[float], context: RAGtuneContext) -> None:
        """Take what the reranker returned for one call, as it returned it."""
        with self._lock:
            if self._scores is None or not (new := [score for score in scores if np.isfinite(score)]):
                return
            self._scores += new
            self._best.append(max(new))
            if len(self._scores) < FIRST_SCORES:
                return
            found = Sample(np.array(self._scores), np.array(self._best)).against(self._declared)
            self._scores, self._best = None, []
        if found:
            words = f"scale={self._declared.value}: of the first {FIRST_SCORES} scores of the reranker almost all are "
            context.trace.add("reranker", SCALE_DOUBT, warning=words + found.words)

    def __getstate__(self) -> Mapping[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())
