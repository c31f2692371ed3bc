"""The normal distribution, for acquisition functions and stopping rules."""

from __future__ import annotations

import numpy as np

from ragtune.core.arrays import FloatArray


def tail(z: FloatArray) -> FloatArray:
    """P(Z > z) of a standard normal."""
    from math import erfc

    return np.array([0.5 * erfc(value / np.sqrt(2.0)) for value in np.asarray(z, dtype=float)])
