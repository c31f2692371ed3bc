"""Chooses one of a study's policies by leaving one group of collections out at a time.

What a group would have got is measured with the policy that all other groups choose, so none of its own queries or
judgments takes part in the choice (leave-one-dataset-out, as in zero-shot evaluation).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from experiments.evaluate.curves import FloatArray
from experiments.report.study import Choice, Collection, Study, column_of
from experiments.report.tables import ends, resampled_means


@dataclass(frozen=True)
class LeftOut:
    """A group, and what it gets by the choice of the others.

    Attributes:
        group: name of the group.
        chosen: the policy that the other groups choose.
        same: share of the resamples of their queries in which they choose it, too.
        gain: the chosen policy's, on this group.
        difference, low, high: from the default's gain on this group, with the interval.
        best: the policy with the largest gain on this group, in hindsight.
        best_gain: that gain.
    """

    group: str
    chosen: str
    same: float
    gain: float
    difference: float
    low: float
    high: float
    best: str
    best_gain: float


@dataclass(frozen=True)
class LeaveOneOut:
    """The outcome of the protocol.

    Attributes:
        gains: by policy, the default first: its gain on each group, in the order of ``left_out``.
        left_out: one entry a group.
        difference, low, high: mean over the groups of what they get more than with the default, with the interval.
        final: the policy that all groups together choose.
        shares: by policy, the share of the resamples in which all groups together choose it.
    """

    gains: Mapping[str, FloatArray]
    left_out: Sequence[LeftOut]
    difference: float
    low: float
    high: float
    final: str
    shares: Mapping[str, float]


def leave_one_out(study: Study, choice: Choice) -> LeaveOneOut:
    """Choose among the policies of kind ``ours``.

    A policy's gain on a collection is the mean of the headline above the reference's at the same budget, over the
    budgets of the choice; on a group it is the mean over its collections, so a group counts once however many it has.
    Of equal policies the default is chosen, then the one named first.
    """
    names = [choice.default, *(p.name for p in study.policies if p.kind == "ours" and p.name != choice.default)]
    groups = list(dict.fromkeys(collection.group for collection in study.collections))
    by_collection = {c.name: _gains(study, choice, c, names) for c in study.collections}
    members = [[c for c in study.collections if c.group == group] for group in groups]
    gains = np.array([np.mean([by_collection[c.name].mean(axis=0) for c in mine], axis=0) for mine in members])
    drawn = np.array(
        [np.mean([resampled_means(study, c, by_collection[c.name]) for c in mine], axis=0) for mine in members]
    )
    left_out, differences = [], []
    for i, group in enumerate(groups):
        others = np.arange(len(groups)) != i
        chosen, best = int(_chosen(gains[others].mean(axis=0))), int(_chosen(gains[i]))
        differences.append(drawn[i, :, chosen] - drawn[i, :, 0])
        low, high = ends(study, differences[-1])
        same = float((_chosen(drawn[others].mean(axis=0)) == chosen).mean())
        gain, default = float(gains[i, chosen]), float(gains[i, 0])
        entry = (group, names[chosen], same, gain, gain - default, float(low), float(high))
        left_out.append(LeftOut(*entry, names[best], float(gains[i, best])))
    low, high = ends(study, np.mean(differences, axis=0))
    counted = np.bincount(_chosen(drawn.mean(axis=0)), minlength=len(names)) / study.resamples
    return LeaveOneOut(
        gains=dict(zip(names, gains.T, strict=True)),
        left_out=left_out,
        difference=float(np.mean([entry.difference for entry in left_out])),
        low=float(low),
        high=float(high),
        final=names[int(_chosen(gains.mean(axis=0)))],
        shares=dict(zip(names, counted.tolist(), strict=True)),
    )


def _gains(study: Study, choice: Choice, collection: Collection, names: Sequence[str]) -> FloatArray:
    """Gains query by query, shape (q, policies)."""

    def mean(policy: str) -> FloatArray:
        values: FloatArray = np.mean(
            [collection.cells[policy, column_of(b)].values[:, 0] for b in choice.budgets], axis=0
        )
        return values

    return np.column_stack([mean(name) for name in names]) - mean(study.reference)[:, None]


def _chosen(gains: FloatArray) -> NDArray[np.intp]:
    """The position of the largest gain along the last axis, the first of those that rounding alone tells apart."""
    chosen: NDArray[np.intp] = np.argmax(gains.round(9), axis=-1)
    return chosen
