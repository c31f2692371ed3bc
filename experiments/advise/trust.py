"""Chooses the trust of the posterior by judged queries, and says by cross-validation what that gains."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from experiments.evaluate.curves import FloatArray
from ragtune.facade.defaults import TRUST

FOLDS = 10

NEEDED = 10
"""Judged queries below which the default is kept: folds of fewer hold no query each."""


@dataclass(frozen=True)
class Trust:
    """A choice of the trust.

    Attributes:
        value: in [0, 1].
        gain: mean gain beside the default of choosing on nine tenths of the queries, measured on the rest in turn, in
            the headline measure and averaged over budgets; with its interval. NaN where nothing was tried.
    """

    value: float
    gain: float = math.nan
    low: float = math.nan
    high: float = math.nan


def choose_trust(values: Mapping[float, FloatArray], *, level: float, seed: int) -> Trust:
    """The trust with the best mean, or the default where choosing by others does not gain in cross-validation.

    Args:
        values: by trust, the default among them: quality of each query, shape (q,), averaged over budgets.
        level: of the interval, by Student's t.
        seed: of the folds.
    """
    from scipy.stats import t

    trusts, table = list(values), np.stack(list(values.values()), axis=1)
    n, default = len(table), trusts.index(TRUST)
    if n < NEEDED:
        return Trust(TRUST)
    gains = np.empty(n)
    for fold in np.array_split(np.random.default_rng(seed).permutation(n), FOLDS):
        rest = np.setdiff1d(np.arange(n), fold)
        gains[fold] = table[fold, _best(table[rest], default)] - table[fold, default]
    mean = float(gains.mean())
    half = float(t.ppf(0.5 + level / 2.0, n - 1)) * float(gains.std(ddof=1)) / math.sqrt(n)
    return Trust(trusts[_best(table, default)] if mean > 0.0 else TRUST, mean, mean - half, mean + half)


def _best(table: FloatArray, default: int) -> int:
    """The column with the best mean; the default where none is better."""
    means = np.round(table.mean(axis=0), 12)
    return int(np.argmax(means)) if means.max() > means[default] else default
