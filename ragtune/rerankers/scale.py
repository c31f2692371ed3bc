"""Scales of reranker scores, their calibration to relevance in [0, 1], and the check of a declared scale."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from ragtune.core.arguments import check_choice
from ragtune.core.arrays import FloatArray
from ragtune.core.request.context import RAGtuneContext

ENOUGH = 20
"""The fewest scores of a table that are checked."""

FIRST_SCORES = 200
"""Scores of a live reranker that are checked, and the fewest scores whose sign is evidence."""

SCALE_DOUBT = "scale_doubt"
"""Action of the trace event with a warning about the scale of a live reranker."""

_ALMOST_ALL = 0.99  # share of scores that must fit; a few odd ones, such as a probability of 1.0001, do not count

_NEAR_ZERO = -1.0
"""Log probabilities of the best documents lie above this: the model gives half of them more than exp(-1) = .37."""

_SURELY_LOG = -0.1
"""Medians of best scores above this belong to log probabilities; those of five monoT5 tables are -.014 to -.005."""

_BY_ORDER = "if only their order counts"


class ScoreScale(str, Enum):
    """The scale of scores, which determines how they become relevance in [0, 1].

    - ``identity``: already in [0, 1];
    - ``logit``: sigmoid;
    - ``log_prob``: exponential (monoT5's log P(relevant));
    - ``rank``: only the order within a query counts; the r-th document (from 1) scores 1 / (1 + r), whose logit is
      -ln r (listwise rerankers); equal scores share their mean rank, so the first stage orders them;
    - ``cosine``: (1 + cosine) / 2.
    """

    IDENTITY = "identity"
    LOGIT = "logit"
    LOG_PROB = "log_prob"
    RANK = "rank"
    COSINE = "cosine"


CALIBRATIONS: Mapping[ScoreScale, tuple[Callable[[float], float], float, float]] = {
    ScoreScale.IDENTITY: (float, 0.0, 1.0),
    ScoreScale.LOGIT: (
        lambda s: 1.0 / (1.0 + math.exp(-s)) if s >= 0 else math.exp(s) / (1.0 + math.exp(s)),
        -700,
        700,
    ),
    ScoreScale.LOG_PROB: (math.exp, -math.inf, 0.0),
    ScoreScale.COSINE: (lambda s: min(1.0, (1.0 + s) / 2.0), -1.0, 1.0 + 1e-6),
}
"""By scale: the calibration, and the lowest and the highest score that it allows."""


def calibrated(score: float, scale: ScoreScale) -> float | None:
    """Return the score in [0, 1]; None where the scale does not allow it. ``rank`` needs all scores of a query."""
    calibrate, low, high = CALIBRATIONS[scale]
    return calibrate(score) if low <= score <= high else None


PAIR_SCALES = tuple(scale.value for scale in CALIBRATIONS)
"""Scales on which a score needs no other scores of its query: all but ``rank``."""


def pair_scale(scale: ScoreScale | str) -> ScoreScale:
    """Return the scale of that name, for a reranker that sees only some documents of a query at a time."""
    return ScoreScale(check_choice("reranker scale", getattr(scale, "value", scale), PAIR_SCALES))


class ScaleObjection(NamedTuple):
    """An objection to the declared scale."""

    words: str
    is_sure: bool = False


class Sample:
    """Scores whose scale is checked, by shares and quantiles, because a single odd score is no evidence."""

    def __init__(self, scores: FloatArray, best: FloatArray) -> None:
        self._scores = scores
        self.typical_best = float(np.median(best))
        self._low, self._middle, self._high = np.quantile(scores, [0.05, 0.5, 0.99]).tolist()

    def within(self, low: float, high: float = np.inf) -> bool:
        return float(((self._scores >= low) & (self._scores <= high)).mean()) >= _ALMOST_ALL

    def looks_like(self) -> ScoreScale:
        """Return the scale that the scores seem to be on; cosines may look like probabilities (``identity``)."""
        if self.within(-np.inf, 0.0):
            return ScoreScale.LOG_PROB if self.typical_best > _NEAR_ZERO else ScoreScale.LOGIT
        if self.within(0.0, 1.0):
            return ScoreScale.IDENTITY
        return ScoreScale.COSINE if self.within(-1.0, 1.0 + 1e-6) else ScoreScale.LOGIT

    def against(self, declared: ScoreScale, option: str = "scale") -> ScaleObjection | None:
        seen = self.looks_like()
        if declared is ScoreScale.RANK or len(self._scores) < ENOUGH or np.ptp(self._scores) == 0.0:
            return None
        if seen is ScoreScale.LOG_PROB and declared is not ScoreScale.LOG_PROB:
            if declared is not ScoreScale.LOGIT or self._are_surely_log:
                words = f"at most 0, and the best of the queries are near 0: these are log probabilities, use {option}"
                return ScaleObjection(f"{words}=log_prob", is_sure=True)
            return ScaleObjection(
                f"at most 0, and the best are near 0: if they are log probabilities use {option}=log_prob, {_BY_ORDER} "
                "rank"
            )
        if declared is ScoreScale.LOGIT:
            return self._against_logit(seen, option)
        if declared is ScoreScale.LOG_PROB and seen is ScoreScale.LOGIT:
            return ScaleObjection(
                f"at most 0, but even the best are far below 0: if they are logits use {option}=logit, {_BY_ORDER} rank"
            )
        if declared is ScoreScale.COSINE and seen is ScoreScale.IDENTITY and self._are_rather_probabilities:
            return ScaleObjection(f"in [0, 1], from near 0 to near 1: if they are probabilities use {option}=identity")
        return None

    def _against_logit(self, seen: ScoreScale, option: str) -> ScaleObjection | None:
        if seen is ScoreScale.IDENTITY:
            words = f"in [0, 1], so they are no logits: use {option}=identity for probabilities, or cosine"
            return ScaleObjection(words, is_sure=True)
        if seen is ScoreScale.COSINE:
            return ScaleObjection(f"in [-1, 1]: logits are rarely that small; {option}=cosine fits as well")
        if len(self._scores) >= FIRST_SCORES and self.within(0.0):
            return ScaleObjection(
                "at least 0, and logits below 0 mean documents that are rather not relevant: divide percentages or "
                f"grades by the highest one and use {option}=identity; {_BY_ORDER} (as of BM25) use rank"
            )
        return None

    @property
    def _are_surely_log(self) -> bool:
        """Whether scores are massed near 0 or have a long tail, as logarithms have."""
        return self.typical_best > _SURELY_LOG and (self._middle > 2.0 * _SURELY_LOG or self._low < -4.0)

    @property
    def _are_rather_probabilities(self) -> bool:
        """Whether scores are massed near 0 or spread from 0 to 1, as cosines of one model are not."""
        return float((self._scores < 0.01).mean()) > 0.1 or (self._low < 0.25 and self._high > 0.9)


class ScaleWatch:
    """Checks the scale of a live reranker's first scores once; thread-safe. A wrong one is an event, no error."""

    def __init__(self, declared: ScoreScale) -> None:
        self._declared = declared
        self._lock = threading.Lock()
        self._scores: list[float] | None = []
        self._best: list[float] = []

    def see(self, scores: Iterable[float], context: RAGtuneContext) -> None:
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
