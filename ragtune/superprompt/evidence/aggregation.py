"""One score from a chunk's cosines with all pieces (rule E7)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_DECIMALS = 6


def log_avg_exp(cosines: NDArray[np.float64], lengths: Sequence[int], tau: float) -> NDArray[np.float64]:
    """``(1/tau) * log(sum_p w_p * exp(tau * cos_p))`` with ``w_p`` the share of piece p in the query's tokens.

    A smooth maximum: between the weighted mean (tau -> 0) and the maximum (tau -> infinity), so a chunk that fits one
    piece well beats one that fits all a little. Weighting by length is the length normalisation: a short last piece
    counts for what it is, and pieces of equal length give the plain LogAvgExp.

    Args:
        cosines: shape (chunks, pieces), in [-1, 1].
        lengths: tokens of each piece, >= 1.
        tau: > 0.

    Returns:
        Shape (chunks,), between the lowest and the highest cosine of the row, rounded to 6 decimals, so that the last
        bits of float arithmetic do not decide ties.
    """
    weights = np.asarray(lengths, dtype=np.float64) / float(sum(lengths))
    highest = cosines.max(axis=1, keepdims=True)
    mean = (np.exp(tau * (cosines - highest)) * weights).sum(axis=1)
    scores: NDArray[np.float64] = np.round(highest[:, 0] + np.log(mean) / tau, _DECIMALS)
    return scores
