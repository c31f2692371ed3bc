"""The normal distribution, for acquisition functions and stopping rules."""

from __future__ import annotations

import numpy as np

from ragtune.core.arrays import FloatArray


def tail(z: FloatArray) -> FloatArray:
    """P(Z > z) of a standard normal."""
    from math import erfc

    return np.array([0.5 * erfc(value / np.sqrt(2.0)) for value in np.asarray(z, dtype=float)])


def expected_excess(gap: FloatArray, deviation: FloatArray) -> FloatArray:
    """E[max(0, X - gap)] for X ~ N(0, deviation^2): the expected improvement over a threshold ``gap`` above the
    mean.

    Elementwise; Jones, Schonlau and Welch (1998), equation 15.
    """
    deviation = np.maximum(deviation, 1e-12)
    z = gap / deviation
    density = np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
    excess: FloatArray = deviation * (density - z * tail(z))
    return np.maximum(excess, 0.0)
