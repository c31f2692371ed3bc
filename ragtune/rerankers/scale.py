"""Scales of reranker scores, and their calibration to relevance in [0, 1]."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from enum import Enum

from ragtune.core.arguments import check_choice, check_member


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


def parse_scale(scale: ScoreScale | str) -> ScoreScale:
    """Return the scale of that name."""
    return check_member(ScoreScale, "scale", scale)


PAIR_SCALES = tuple(scale.value for scale in CALIBRATIONS)
"""Scales on which a score needs no other scores of its query: all but ``rank``."""


def pair_scale(scale: ScoreScale | str) -> ScoreScale:
    """Return the scale of that name, for a reranker that sees only some documents of a query at a time."""
    return ScoreScale(check_choice("reranker scale", getattr(scale, "value", scale), PAIR_SCALES))
