"""Trust from requests without judgments: how far the reranker agrees with the first stage."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

CORRELATION = "correlation"
"""In the trace: the rank correlation of the scores with the first-stage evidence, over the scored documents."""

FULL_TRUST = 0.5
"""Trust in a reranker that agrees with the first stage as useful rerankers do."""

ENOUGH_REQUESTS = 30
"""Requests from which the mean of their correlations is judged."""

_USEFUL = 0.1  # correlation from which a reranker is trusted in full: good ones have .1 to .6 on the open collections
_ERRORS = 2.0  # standard errors that are taken off the mean, so that chance alone makes nobody trusted


class SourceCorrelation(NamedTuple):
    """The mean rank correlation of a reranker with the first stage over some requests, and the trust that it earns.

    A reranker whose scores have nothing to do with the first stage, or contradict it, is hardly ever useful: random
    scores have the correlation 0, negated ones a negative one. One that agrees may still be harmful, and a useful one
    may find what a poor first stage ranks by chance, so this is evidence and no proof; judgments decide.
    """

    requests: int
    mean: float  # of their rank correlations, in [-1, 1]
    error: float  # standard error of the mean, in [0, 1]; 1 of less than two requests

    @classmethod
    def of(cls, correlations: Sequence[float]) -> SourceCorrelation:
        """From the correlation of each request."""
        values = np.asarray(correlations, dtype=float)
        if len(values) < 2:
            return cls(len(values), float(values.sum()), 1.0)
        return cls(len(values), float(values.mean()), float(values.std(ddof=1)) / math.sqrt(len(values)))

    @property
    def low(self) -> float:
        """The mean less two standard errors."""
        return self.mean - _ERRORS * self.error

    @property
    def trust(self) -> float:
        """In [0, 0.5]: 0.5 from a correlation of .1 on, proportionally less below it; 0.5 as long as little is seen."""
        if self.requests < ENOUGH_REQUESTS:
            return FULL_TRUST
        return round(FULL_TRUST * min(max(self.low, 0.0) / _USEFUL, 1.0), 3)
