"""Holm's correction for several tests."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ragtune.core.arrays import FloatArray


def holm(p_values: ArrayLike) -> FloatArray:
    """Holm's step-down correction of one family of p-values (Scandinavian Journal of Statistics, 1979).

    Returns:
        Adjusted p-values, shape (k,), in the given order, which are compared with the significance level itself.

    Example:
        >>> holm([0.01, 0.04]).tolist()
        [0.02, 0.04]
    """
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p, kind="stable")
    factors = np.arange(len(p), 0, -1)
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(factors * p[order])) if len(p) else []
    return adjusted
