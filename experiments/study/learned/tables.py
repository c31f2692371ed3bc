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
from experiments.study.learned.fit import COPY
from experiments.study.learned.replays import BUDGETS, COLUMN, Variant, copy_of, histories, variants_of
from experiments.study.study import Collection, Study, column_of
from experiments.study.tables import ends, resampled_means

ALL = "mean of the groups"
"""Stands for a collection in the rows of means."""

OTHERS, NOTHING = "others", "nothing"
"""What was learned from, where it is no number of the collection's own queries."""

PRIOR = "prior"
"""What is compared with: the policy as it is; otherwise :data:`COPY`, see :func:`copy_of`."""


@dataclass(frozen=True)
class Row:
    """A learned prior beside another one, on one collection at one budget.

    Attributes:
        learned_from: :data:`OTHERS`, :data:`NOTHING`, or the number of the collection's own queries.
        evaluated_on: ``all`` queries, or the ``rest``, which come after those of the longest history.
        base, model, use: as of :class:`Variant`.
        against: :data:`PRIOR` or :data:`COPY`.
        collection: name of the collection, or :data:`ALL`.
        queries: how many it was evaluated on; of the means, the number of groups.
        budget: documents reranked.
        reference, learned: means of the headline.
        low, high: ends of the difference's interval.
        p, p_holm: of the randomization test, as it is and corrected over all comparisons on the collection that have
            ``evaluated_on`` and ``against`` in common; None of the means.
    """

    learned_from: str
    evaluated_on: str
    base: str
    model: str
    use: str
    against: str
    collection: str
    queries: int
    budget: int
    reference: float
    learned: float
    low: float
    high: float
    p: float | None = None
    p_holm: float | None = None

    @property
    def difference(self) -> float:
        """The learned prior's mean less the other's."""
        return self.learned - self.reference


@dataclass(frozen=True)
class _Compared:
    """What is compared on one collection: c pairs of a variant and a budget, over q queries.

    Attributes:
        pairs: c of them.
        reference, learned: shape (q, c).
        drawn: shape (resamples, c), mean differences in resamples of the queries.
    """

    collection: Collection
    pairs: Sequence[tuple[Variant, int]]
    reference: FloatArray
    learned: FloatArray
    drawn: FloatArray


def rows_of(study: Study, cells: Cells, bases: Sequence[PolicyEntry]) -> list[Row]:
    """All comparisons: first those that leave a group out, then the learning curves.

    Args:
        study: of the bases, with the settings of intervals and tests.
        cells: of bases and variants.
        bases: policies whose priors are replaced.
    """
    rows: list[Row] = []
    for evaluated_on in ("all", "rest"):
        for against in (PRIOR, COPY):
            family = []
            for collection in study.collections:
                seen = histories(len(collection.queries))
                history = [None] if evaluated_on == "all" else seen
                variants = _asked(bases, history, against) if history else []
                skipped = 0 if evaluated_on == "all" else max(seen, default=0)
                if variants:
                    family.append(_compared(study, cells, collection, variants, against, skipped))
            rows += _rows(study, family, evaluated_on, against)
    return rows


def table_of(rows: Sequence[Row]) -> Columns:
    """The rows as columns, numbers with six digits."""
    plain = [{**asdict(row), "difference": row.difference} for row in rows]
    return {
        name: [float(f"{row[name]:.6g}") if isinstance(row[name], float) else row[name] for row in plain]
        for name in plain[0]
    }


def _asked(bases: Sequence[PolicyEntry], history: Sequence[int | None], against: str) -> list[Variant]:
    variants = variants_of(bases, history)
    if against == COPY:  # which is a column itself
        return [variant for variant in variants if variant.use == COLUMN]
    return [*variants, *map(copy_of, bases)]


def _compared(
    study: Study, cells: Cells, collection: Collection, variants: Sequence[Variant], against: str, skipped: int
) -> _Compared:
    pairs = [(variant, budget) for variant in variants for budget in BUDGETS]

    def values(policy: PolicyEntry, budget: int) -> FloatArray:
        headline: FloatArray = cells[collection.name, policy.name, column_of(budget)].values[skipped:, 0]
        return headline

    def other(base: PolicyEntry) -> PolicyEntry:
        return base if against == PRIOR else copy_of(base).entry

    reference = np.column_stack([values(other(variant.base), budget) for variant, budget in pairs])
    learned = np.column_stack([values(variant.entry, budget) for variant, budget in pairs])
    return _Compared(collection, pairs, reference, learned, resampled_means(study, collection, learned - reference))


def _rows(study: Study, family: Sequence[_Compared], evaluated_on: str, against: str) -> Iterator[Row]:
    for compared in family:
        differences = compared.learned - compared.reference
        p = randomization_test(differences, permutations=study.permutations, seed=study.seed)
        columns = (compared.reference.mean(axis=0), compared.learned.mean(axis=0), *ends(study, compared.drawn))
        where = (evaluated_on, against, compared.collection.name, len(differences))
        for pair, *numbers in zip(compared.pairs, *columns, p, holm(p), strict=True):
            yield _row(pair, where, numbers)
    for pair in dict.fromkeys(pair for compared in family for pair in compared.pairs):
        groups, mean = _mean(study, family, pair)
        yield _row(pair, (evaluated_on, against, ALL, groups), mean)


def _mean(study: Study, family: Sequence[_Compared], pair: tuple[Variant, int]) -> tuple[int, list[float]]:
    """The number of groups that have a pair, and its means over them, a group's members first."""
    groups: dict[str, list[tuple[FloatArray, ...]]] = {}
    for compared in family:
        if pair in compared.pairs:
            i = compared.pairs.index(pair)
            both = compared.reference[:, i].mean(keepdims=True), compared.learned[:, i].mean(keepdims=True)
            groups.setdefault(compared.collection.group, []).append((*both, compared.drawn[:, i]))
    of_groups = [[np.mean(parts, axis=0) for parts in zip(*members, strict=True)] for members in groups.values()]
    before, after, resampled = (np.mean(parts, axis=0) for parts in zip(*of_groups, strict=True))
    return len(groups), [before.item(), after.item(), *ends(study, resampled)]


def _row(pair: tuple[Variant, int], where: tuple[str, str, str, int], numbers: Sequence[float]) -> Row:
    (variant, budget), (evaluated_on, against, collection, queries) = pair, where
    learned_from = NOTHING if variant.model == COPY else OTHERS if variant.seen is None else str(variant.seen)
    what = (variant.base.name, variant.model, variant.use, against, collection, queries, budget)
    return Row(learned_from, evaluated_on, *what, *map(float, numbers))
