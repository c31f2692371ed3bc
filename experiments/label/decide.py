"""Decides from the judged pairs whether the reranker helps or harms, however often one looks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from experiments.label.choose import Plan

Verdict = Literal["helps", "harms", "undecided"]

LEVEL = 0.9
"""Confidence at which a decision falls."""

LEAST, LEAST_DIFFERENT = 10, 5
"""Visited queries, and those whose pairs got different grades, below which nothing is told: of fewer no spread can be
seen, and the interval is one for large samples."""

_TUNED = 50
"""Number of queries at which the interval is narrowest."""

_ALPHA = 2.0 * (1.0 - LEVEL)
"""Both ends together: a decision is wrong beyond one of them only."""

_RHO = (-2.0 * math.log(_ALPHA) + math.log(-2.0 * math.log(_ALPHA) + 1.0)) / _TUNED
"""The square of the tuning parameter rho that does that."""


class Decision(BaseModel):
    """What the judged pairs say.

    ``gain`` is the mean over visited queries of weight x (grade of the document moved up - that of the one moved down).
    Its sign is that of the difference in DCG@10. ``confidence`` is that this sign is right, in [0, 1].
    """

    model_config = ConfigDict(frozen=True)

    verdict: Verdict
    confidence: float
    gain: float
    low: float | None
    high: float | None
    queries: int
    pairs: int
    more_labels: int | None


def decide(plan: Plan, grades: Mapping[tuple[str, str], int]) -> Decision:
    """Decide by an asymptotic confidence sequence (Waudby-Smith et al., Annals of Statistics 2024).

    It holds at all sample sizes at once, so stopping as soon as it excludes 0 is allowed.
    """
    gains: dict[str, float] = {}
    pairs = 0
    for pair in plan.pairs:
        both = grades.get((pair.query_id, pair.up)), grades.get((pair.query_id, pair.down))
        if both[0] is not None and both[1] is not None:
            gain = pair.weight * (max(both[0], 0) - max(both[1], 0))
            gains[pair.query_id] = gains.get(pair.query_id, 0.0) + gain
            pairs += 1
    found = conclude([*gains.values(), *[0.0] * _unchanged(plan, gains)], pairs)
    is_enough = found.more_labels is not None and found.more_labels <= 2 * (len(plan.pairs) - pairs)
    return found if is_enough else found.model_copy(update={"more_labels": None})


def _unchanged(plan: Plan, gains: Mapping[str, float]) -> int:
    """How many queries without a pair stand before the last visited one: the reranker changes nothing for them."""
    paired = {pair.query_id for pair in plan.pairs}
    last = max((i for i, query_id in enumerate(plan.queries) if query_id in gains), default=-1)
    return sum(query_id not in paired for query_id in plan.queries[: last + 1])


def conclude(gains: Sequence[float], pairs: int) -> Decision:
    """The decision from the gain of each visited query."""
    n = len(gains)
    values = np.array(gains, dtype=float)
    mean = float(values.mean()) if n else 0.0
    spread = float(values.std(ddof=1)) if n > 1 else 0.0
    if n < LEAST or np.count_nonzero(values) < LEAST_DIFFERENT or spread == 0.0:
        unknown = {"low": None, "high": None, "more_labels": None}
        return Decision(verdict="undecided", confidence=0.0, gain=mean, queries=n, pairs=pairs, **unknown)
    margin = spread * _factor(n)
    confidence = 1.0 - _p_value(n, mean / spread) / 2.0
    verdict: Verdict = "undecided"
    if confidence >= LEVEL:
        verdict = "helps" if mean > 0.0 else "harms"
    more = 0 if verdict != "undecided" else _more(n, pairs, abs(mean) / spread)
    return Decision(
        verdict=verdict,
        confidence=confidence,
        gain=mean,
        low=mean - margin,
        high=mean + margin,
        queries=n,
        pairs=pairs,
        more_labels=more,
    )


def _factor(n: int) -> float:
    """Half of the interval's width in standard deviations."""
    scaled = n * _RHO
    return math.sqrt(2.0 * (scaled + 1.0) / (n * scaled) * math.log(math.sqrt(scaled + 1.0) / _ALPHA))


def _p_value(n: int, effect: float) -> float:
    """The alpha at which the interval ends at 0, for a mean of so many standard deviations."""
    scaled = n * _RHO
    return min(1.0, math.sqrt(scaled + 1.0) * math.exp(-n * effect**2 * scaled / (2.0 * (scaled + 1.0))))


def _more(n: int, pairs: int, effect: float) -> int | None:
    """Labels more until the interval of this mean and spread excludes 0; None beyond a hundred times as many."""
    needed = n
    while _factor(needed) > effect:
        needed += max(1, needed // 50)
        if needed > 100 * n:
            return None
    return max(2, round(2.0 * pairs * (needed - n) / n))
