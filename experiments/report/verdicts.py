"""What a claim's comparisons prove on each collection: that it holds, that it fails, or neither with so few queries."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from experiments.evaluate.curves import FloatArray
from experiments.evaluate.significance import SIGNIFICANT, TIE, holm

POWER = 0.8
"""Probability with which the reported number of queries would decide."""


class Verdict(StrEnum):
    """What is known of a claim on a collection."""

    HOLDS = "holds"
    FAILS = "fails"
    OPEN = "open"


@dataclass(frozen=True)
class Finding:
    """A claim on one collection; ``needed`` queries would decide it if differences and deviations stay as measured."""

    verdict: Verdict
    p: float
    needed: float


def side_columns(differences: FloatArray, line: float) -> dict[str, FloatArray]:
    """On which side of a line the means of t columns of per-query differences lie, by the paired t-test.

    A randomization test is of no use here: most queries tie, and ties lie on one side of a line that is not 0.

    Args:
        differences: shape (q, t).
        line: the mean that is tested.

    Returns:
        Shape (t,) each: ``p_below`` and ``p_above``, two-sided; and ``effect``, the distance from the line in standard
        deviations, infinite where all queries differ alike. Those have the p-value of the sign test, 0.5 ** q.
    """
    from scipy.stats import t as student

    q = len(differences)
    distance = differences.mean(axis=0) - line
    distance = np.where(np.abs(distance) <= TIE, 0.0, distance)
    deviation = differences.std(axis=0, ddof=1) if q > 1 else np.full(len(distance), np.inf)
    alike = deviation <= TIE
    effect = distance / np.where(alike, 1.0, deviation)
    statistic, freedom = effect * math.sqrt(q), max(q - 1, 1)
    p_below = np.where(alike, np.where(distance < 0.0, 0.5**q, 1.0), student.cdf(statistic, freedom))
    p_above = np.where(alike, np.where(distance > 0.0, 0.5**q, 1.0), student.sf(statistic, freedom))
    return {
        "p_below": np.minimum(1.0, 2.0 * p_below),
        "p_above": np.minimum(1.0, 2.0 * p_above),
        "effect": np.where(alike & (distance != 0.0), np.copysign(np.inf, distance), effect),
    }


def findings(rows: Any, share: float) -> Mapping[str, Finding]:
    """What a claim's comparisons prove, by collection.

    Against each other policy, the comparisons of ``share`` of the budgets have to lie above the line. This is tested by
    the partial conjunction of their p-values (Benjamini and Heller, Biometrics 2008). Of several other policies all
    have to be proven, and one is enough to refute. Both proofs are Holm-corrected over the collections.

    Args:
        rows: a row for each comparison, with ``collection``, ``against`` and :func:`side_columns`.
        share: in (0, 1]; 1 asks for every budget.
    """
    collections = {
        str(name): [group for _, group in mine.groupby("against", sort=False)]
        for name, mine in rows.groupby("collection", sort=False)
    }
    proven = holm([_proven(groups, share) for groups in collections.values()])
    refuted = holm([_refuted(groups, share) for groups in collections.values()])
    found = {}
    for i, (name, groups) in enumerate(collections.items()):
        verdict = Verdict.HOLDS if proven[i] < SIGNIFICANT else Verdict.OPEN
        verdict = Verdict.FAILS if refuted[i] < SIGNIFICANT else verdict
        found[name] = Finding(verdict, float(min(proven[i], refuted[i])), _needed(groups, share, len(collections)))
    return found


def _wanted(count: int, share: float) -> int:
    return math.ceil(share * count - TIE)


def _proven(groups: Sequence[Any], share: float) -> float:
    """p-value of: against each policy, at least the share of the comparisons lie above the line."""
    p = []
    for group in groups:
        wanted = _wanted(len(group), share)
        p.append(float((len(group) - wanted + 1) * np.sort(group["p_above"])[wanted - 1]))
    return min(1.0, max(p))


def _refuted(groups: Sequence[Any], share: float) -> float:
    """p-value of: against some policy, fewer than the share of the comparisons lie above the line."""
    p = []
    for group in groups:
        wanted = _wanted(len(group), share)
        p.append(float(wanted * np.sort(group["p_below"])[len(group) - wanted]))
    return min(1.0, len(groups) * min(p))


def _needed(groups: Sequence[Any], share: float, collections: int) -> float:
    """Queries that would prove it where enough measured differences are above the line, else refute it."""
    prove, refute = [], []
    for group in groups:
        count, wanted = len(group), _wanted(len(group), share)
        effect = float(np.sort(group["effect"])[count - wanted])
        prove.append(_queries(effect, collections * (count - wanted + 1)))
        refute.append(_queries(-effect, collections * wanted * len(groups)))
    return max(prove) if np.isfinite(prove).all() else min(refute)


def _queries(effect: float, tests: int) -> float:
    """Queries that a test needs at a corrected level, by the normal approximation; infinity for an effect <= 0."""
    from scipy.stats import norm

    if effect <= 0.0:
        return math.inf
    quantiles = norm.isf(SIGNIFICANT / (2 * tests)) + norm.ppf(POWER)
    return float(max(2.0, math.ceil((quantiles / effect) ** 2)))
