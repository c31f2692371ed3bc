"""Brings the logits of several rerankers to one scale, from documents that are alike."""

from __future__ import annotations

import numpy as np

_PRIOR_COUNT = 4.0
"""Number of documents that weigh as much as the assumption that two strategies agree already."""


class LogitCalibration:
    """Maps a strategy's logits to the reference strategy's: calibrated = (logit - shift) / stretch.

    Two strategies never score the same document (a document is reranked once), so what the reference would have said is
    the posterior's prediction from documents that read alike. ``stretch`` and ``shift`` are the Bayesian least-squares
    line of the logits on those predictions (Bishop 2006, section 3.3), with prior line y = x; the stretch is kept
    positive, so an order is never reversed.
    """

    def __init__(self) -> None:
        self._predictions: list[float] = []
        self._logits: list[float] = []
        self.shift = 0.0
        self.stretch = 1.0

    def learn(self, prediction: float, logit: float) -> None:
        """Take in a document's predicted reference logit and the strategy's own."""
        self._predictions.append(prediction)
        self._logits.append(logit)
        x, y = np.array(self._predictions), np.array(self._logits)
        spread = max(float(x.var()), 1.0)
        design = np.column_stack([np.ones(len(x)), x - x.mean()])
        precision = np.diag([_PRIOR_COUNT, _PRIOR_COUNT * spread])
        prior_line = np.array([x.mean(), 1.0])
        line = np.linalg.solve(design.T @ design + precision, design.T @ y + precision @ prior_line)
        self.stretch = max(float(line[1]), 0.1)
        self.shift = float(line[0]) - self.stretch * float(x.mean())

    def __call__(self, logit: float) -> float:
        """The logit on the reference's scale."""
        return (logit - self.shift) / self.stretch
