"""What learned priors gain over the one that nobody fitted, collection by collection and over all groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from experiments.evaluate.curves import FloatArray
from experiments.evaluate.significance import holm, randomization_test
from experiments.publish.columns import Columns
from experiments.study.frontier import Cells
from experiments.study.grid import PolicyEntry
from experiments.study.learned.replays import BUDGETS, Variant, histories, variants_of
from experiments.study.study import Collection, Study, column_of
from experiments.study.tables import ends, resampled_means

ALL = "mean of the groups"
"""Stands for a collection in the rows of means."""


@dataclass(frozen=True)
class Row:
    """A learned prior beside the other one, on one collection at one budget.

    Attributes:
        learned_from: ``others`` for the queries of the other groups, else how many of the same collection.
        base, model, use: as of :class:`Variant`.
        collection: name of the collection, or :data:`ALL`.
        queries: how many it was evaluated on; of the means, the number of groups.
        budget: documents reranked.
        unlearned, learned: mean of the headline with the base's prior and with the learned one.
        low, high: ends of the difference's interval.
        p, p_holm: of the randomization test, as it is and corrected over all comparisons of the collection that have
            the same queries; None of the means.
    """

    learned_from: str
    base: str
    model: str
    use: str
    collection: str
    queries: int
    budget: int
    unlearned: float
    learned: float
    low: float
    high: float
    p: float | None = None
    p_holm: float | None = None

    @property
    def difference(self) -> float:
        """The learned prior's mean less the other's."""
        return self.learned - self.unlearned


@dataclass(frozen=True)
class _Compared:
    """Variants on one collection at all budgets: c comparisons over q queries.

    Attributes:
        variants: as many as there are comparisons, each with its budget.
        unlearned, learned: shape (q, c).
        drawn: shape (resamples, c), differences in resamples of the queries.
    """

    collection: Collection
    variants: Sequence[tuple[Variant, int]]
    unlearned: FloatArray
    learned: FloatArray
    drawn: FloatArray


def rows_of(study: Study, cells: Cells, bases: Sequence[PolicyEntry]) -> list[Row]:
    """All comparisons: first those that leave a group out, then the learning curves.

    Args:
        study: of the bases, with the settings of intervals and tests.
        cells: of bases and variants.
        bases: policies whose priors are replaced.
    """
    left_out = [_compared(study, cells, c, variants_of(bases, [None]), 0) for c in study.collections]
    long_enough = [(c, seen) for c in study.collections if (seen := histories(len(c.queries)))]
    curves = [_compared(study, cells, c, variants_of(bases, seen), max(seen)) for c, seen in long_enough]
    return [row for family in (left_out, curves) for row in _family(study, family)]


def table_of(rows: Sequence[Row]) -> Columns:
    """The rows as columns, numbers with six digits."""
    plain = [{**asdict(row), "difference": row.difference} for row in rows]
    return {
        name: [float(f"{row[name]:.6g}") if isinstance(row[name], float) else row[name] for row in plain]
        for name in plain[0]
    }


def _compared(
    study: Study, cells: Cells, collection: Collection, variants: Sequence[Variant], skipped: int
) -> _Compared:
    """Compare on the queries that come after those of the longest history."""
    each = [(variant, budget) for variant in variants for budget in BUDGETS]

    def values(policy: str, budget: int) -> FloatArray:
        headline: FloatArray = cells[collection.name, policy, column_of(budget)].values[skipped:, 0]
        return headline

    unlearned = np.column_stack([values(variant.base.name, budget) for variant, budget in each])
    learned = np.column_stack([values(variant.entry.name, budget) for variant, budget in each])
    return _Compared(collection, each, unlearned, learned, resampled_means(study, collection, learned - unlearned))


def _family(study: Study, family: Sequence[_Compared]) -> Iterator[Row]:
    for compared in family:
        differences = compared.learned - compared.unlearned
        p = randomization_test(differences, permutations=study.permutations, seed=study.seed)
        low, high = ends(study, compared.drawn)
        unlearned, learned = compared.unlearned.mean(axis=0), compared.learned.mean(axis=0)
        told = zip(compared.variants, unlearned, learned, low, high, p, holm(p), strict=True)
        for (variant, budget), *numbers in told:
            yield _row(variant, compared.collection.name, len(differences), budget, numbers)
    for variant, budget in dict.fromkeys(one for compared in family for one in compared.variants):
        groups: dict[str, list[tuple[float, float, FloatArray]]] = {}
        for compared in family:
            if (variant, budget) in compared.variants:
                i = compared.variants.index((variant, budget))
                means = float(compared.unlearned[:, i].mean()), float(compared.learned[:, i].mean())
                groups.setdefault(compared.collection.group, []).append((*means, compared.drawn[:, i]))
        before, after, drawn = (
            np.mean([np.mean([one[part] for one in group], axis=0) for group in groups.values()], axis=0)
            for part in range(3)
        )
        yield _row(variant, ALL, len(groups), budget, [before, after, *ends(study, drawn)])


def _row(variant: Variant, collection: str, queries: int, budget: int, numbers: Sequence[float]) -> Row:
    learned_from = "others" if variant.seen is None else str(variant.seen)
    what = (learned_from, variant.base.name, variant.model, variant.use, collection, queries, budget)
    return Row(*what, *map(float, numbers))
