"""Chooses one of a study's policies by leaving one family of collections out at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from experiments.evaluate.curves import FloatArray
from experiments.report.families import means_by_family
from experiments.report.study import PolicyChoice, Study, StudyCollection, column_of
from experiments.report.tables import ends, resampled_means


@dataclass(frozen=True)
class LeftOut:
    """A family, its result by the choice of the others, and the best choice in hindsight."""

    family: str
    chosen: str
    same: float  # share of the resamples of the others' queries in which they choose the same policy
    gain: float
    difference: float  # gain of the chosen policy less that of the default, with the interval
    low: float
    high: float
    best: str
    best_gain: float


@dataclass(frozen=True)
class LeaveOneOut:
    """The outcome of the protocol."""

    gains: Mapping[str, FloatArray]  # by policy, the default first: its gain on each family, as in ``left_out``
    left_out: Sequence[LeftOut]
    difference: float  # mean over the families of their gain over the default, with the interval
    low: float
    high: float
    final: str  # the policy that all families together choose
    shares: Mapping[str, float]  # how often each policy is chosen in the resamples


def leave_one_out(study: Study, choice: PolicyChoice) -> LeaveOneOut:
    """Choose among the policies of kind ``ours`` by mean gain over the reference; each family counts once."""
    names = [choice.default, *(p.name for p in study.policies if p.kind == "ours" and p.name != choice.default)]
    by_collection = {c.name: _gains(study, choice, c, names) for c in study.collections}
    resampled = {c.name: resampled_means(study, c, by_collection[c.name]) for c in study.collections}
    means = means_by_family(study.collections, {name: found.mean(axis=0) for name, found in by_collection.items()})
    gains, drawn = np.array([*means.values()]), np.array([*means_by_family(study.collections, resampled).values()])
    left_out, differences = [], []
    for i, family in enumerate(means):
        others = np.arange(len(means)) != i
        chosen, best = int(_chosen(gains[others].mean(axis=0))), int(_chosen(gains[i]))
        differences.append(drawn[i, :, chosen] - drawn[i, :, 0])
        low, high = ends(study, differences[-1])
        same = float((_chosen(drawn[others].mean(axis=0)) == chosen).mean())
        gain, default = float(gains[i, chosen]), float(gains[i, 0])
        entry = (family, names[chosen], same, gain, gain - default, float(low), float(high))
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


def _gains(study: Study, choice: PolicyChoice, collection: StudyCollection, names: Sequence[str]) -> FloatArray:
    """Gains query by query, shape (q, policies)."""

    def mean(policy: str) -> FloatArray:
        cells = [collection.cells[policy, column_of(budget)] for budget in choice.budgets]
        values: FloatArray = np.mean([cell.values[:, 0] for cell in cells], axis=0)
        return values

    return np.column_stack([mean(name) for name in names]) - mean(study.reference)[:, None]


def _chosen(gains: FloatArray) -> NDArray[np.intp]:
    """The position of the largest gain along the last axis; of gains equal up to rounding the first."""
    chosen: NDArray[np.intp] = np.argmax(gains.round(9), axis=-1)
    return chosen


def choice_page(study: Study, choice: PolicyChoice, found: LeaveOneOut) -> str:
    """The choice, the result of each group by it, and the gains that it was made by, as Markdown."""
    default, final = (study.by_name[name].label for name in (choice.default, found.final))
    proven = found.low > 0
    title = f"Take {final}." if proven and found.final != choice.default else f"Keep {default}."
    gets = f"{found.difference:+.4f} [{found.low:+.4f}, {found.high:+.4f}]"
    agree = sum(entry.chosen == found.final for entry in found.left_out)
    budgets = ", ".join(map(column_of, choice.budgets))
    reference = study.by_name[study.reference].label
    return f"""# {study.name}: leaving one family out

**{title}** A family gets {gets} {study.measures[0]} more than with {default} if the others choose for it.
All families together choose {final} (in {found.shares[found.final]:.0%} of the resamples); so do {agree} of the
{len(found.left_out)} choices that leave one out.

Each family of collections is left out in turn. The others choose the policy with the largest mean gain over
{reference} at equal budgets ({budgets} {study.noun}), over the pairs of a collection, the collections of a family and
the families; of equals {default}. What the left-out family gets with that policy is what the choice is worth where
nobody looked. Another policy than {default} is taken only if that is above zero with its interval.

- made by `{study.command}`
- code: `{study.git_sha}`
- intervals: {study.level:.0%}, {study.resamples} bootstrap resamples of the queries, the choice held fixed;
  collections over the same queries share them; seed {study.seed}
- hindsight: the largest gain on the family itself, which nobody can know beforehand
- chosen again: share of the resamples of the others' queries in which they choose the same

{_left_out(study, default, found)}
{_gains_page(study, reference, found)}"""


def _left_out(study: Study, default: str, found: LeaveOneOut) -> str:
    lines = [
        f"| left out | the others choose | chosen again | gain | gain of {default} | difference "
        "| best in hindsight | its gain |",
        "|---|---|---:|---:|---:|---:|---|---:|",
    ]
    for entry in found.left_out:
        chosen, best = (study.by_name[name].label for name in (entry.chosen, entry.best))
        difference = f"{entry.difference:+.4f} [{entry.low:+.4f}, {entry.high:+.4f}]"
        lines.append(
            f"| {entry.family} | {chosen} | {entry.same:.0%} | {entry.gain:+.4f} | "
            f"{entry.gain - entry.difference:+.4f} | {difference} | {best} | {entry.best_gain:+.4f} |"
        )
    return "\n".join(["## What each family would have got\n", *lines, ""])


def _gains_page(study: Study, reference: str, found: LeaveOneOut) -> str:
    families = [entry.family for entry in found.left_out]
    best = np.max([*found.gains.values()], axis=0)
    lines = [f"| policy | {' | '.join(families)} | mean | chosen by all |", f"|---|{'---:|' * (len(families) + 2)}"]
    for name, gains in found.gains.items():
        cells = [f"**{gain:+.4f}**" if gain == best[i] else f"{gain:+.4f}" for i, gain in enumerate(gains)]
        lines.append(
            f"| {study.by_name[name].label} | {' | '.join(cells)} | {gains.mean():+.4f} | {found.shares[name]:.0%} |"
        )
    return "\n".join([f"## Gains over {reference}, by which policies are chosen\n", *lines, ""])
