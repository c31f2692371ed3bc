"""Statistics that library and harness share: how alike two rankings are, corrected tests, and a bound of a mean."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ragtune.core.arrays import FloatArray, IntArray
from ragtune.core.plain import quoted

SIGNIFICANT = 0.05
"""Level of corrected p-values."""

ABSENT = 2**31
"""The place of a document that a ranking lacks: behind all that it has."""


class RankPlaces(NamedTuple):
    """Places of shape (q, k) that one ranking gives the first k of another, or ABSENT; ``depths`` of shape (q,)."""

    places: IntArray
    depths: IntArray

    @classmethod
    def of(cls, pairs: Iterable[tuple[Sequence[Hashable], Sequence[Hashable]]], k: int) -> RankPlaces:
        rows, depths = [], []
        for one, other in pairs:
            place = dict(zip(one, range(len(one)), strict=True))
            row = [place.get(document, ABSENT) for document in other[:k]]
            rows.append(row + [ABSENT] * (k - len(row)))
            depths.append(min(k, len(one), len(other)))
        return cls(np.array(rows, dtype=np.intp).reshape(len(rows), k), np.array(depths, dtype=np.intp))

    def overlap(self) -> FloatArray:
        """The share of the first documents that both rankings have, shape (q,); 1 where there are none."""
        return np.where(self.depths > 0, self._agreement(self.depths[:, None])[:, 0], 1.0)

    def rank_biased_overlap(self, p: float) -> FloatArray:
        """Rank-biased overlap, extrapolated, shape (q,), see :func:`rank_biased_overlap`."""
        every = np.arange(1, self.places.shape[1] + 1)[None]
        powers = np.array([p**d for d in range(every.size + 1)])
        weights = np.where(every <= self.depths[:, None], powers[:-1], 0.0)
        weighted = np.cumsum(self._agreement(every) * weights, axis=1)[:, -1]
        ends = self.overlap() * powers[self.depths]
        return np.minimum(1.0, np.where(self.depths > 0, ends + (1 - p) * weighted, 1.0))

    def kendall_tau(self) -> FloatArray:
        """Kendall's tau (1938) of the first documents, all of which the one must have, shape (q,); 1 below two."""
        first, second = np.triu_indices(self.places.shape[1], 1)
        before, after = self.places[:, first], self.places[:, second]
        is_pair = after < ABSENT  # the places of the first ones, which are all there, come first
        pairs = is_pair.sum(axis=1)
        agreeing = np.where(before < after, 1, -1).sum(axis=1, where=is_pair)
        return np.where(pairs > 0, agreeing / np.maximum(pairs, 1), 1.0)

    def _agreement(self, depths: IntArray) -> FloatArray:
        """The share of the first documents that both rankings have, shape (q, d), at depths of that shape or (1, d)."""
        within = np.arange(self.places.shape[1]) < depths[..., None]
        share: FloatArray = ((self.places[:, None] < depths[..., None]) & within).sum(axis=2) / np.maximum(depths, 1)
        return share


def overlap(one: Sequence[Hashable], other: Sequence[Hashable], k: int = 10) -> float:
    """The share of the first k that both rankings have, in [0, 1]; 1 where there are no documents."""
    return float(RankPlaces.of([(one, other)], k).overlap()[0])


def rank_biased_overlap(one: Sequence[Hashable], other: Sequence[Hashable], k: int = 10, p: float = 0.9) -> float:
    """Extrapolated rank-biased overlap of the first k (Webber, Moffat and Zobel, TOIS 2010, equation 32), in [0, 1]."""
    return float(RankPlaces.of([(one, other)], k).rank_biased_overlap(p)[0])


def gain_kept(ranking: Sequence[int], gains: Mapping[int, float], k: int = 10) -> float:
    """nDCG@k in [0, 1] of a ranking where every document's gain is the full reranker's own score."""
    best = _dcg(sorted(gains.values(), reverse=True)[:k])
    return min(1.0, _dcg([gains[document] for document in ranking[:k]]) / best) if best else 1.0


def _dcg(gains: Sequence[float]) -> float:
    return math.fsum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))


def holm(p_values: ArrayLike) -> FloatArray:
    """Holm's step-down correction of one family of p-values (Scandinavian Journal of Statistics, 1979)."""
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p, kind="stable")
    factors = np.arange(len(p), 0, -1)
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(factors * p[order])) if len(p) else []
    return adjusted


def doubted(tested: Mapping[str, tuple[float, float]]) -> dict[str, float]:
    """Holm's corrected p-values below 5% of sources with a mean margin above 0; ``tested`` has (mean, two-sided p)."""
    corrected = holm([p for _, p in tested.values()]).tolist()
    found = zip(tested.items(), corrected, strict=True)
    return {name: p for (name, (mean, _)), p in found if p < SIGNIFICANT and mean > 0.0}


def in_words(source: str, evidence: str, dial: str) -> str:
    """The doubt in a sentence, with what bears it out and what the user may turn."""
    return (
        f"the source {quoted(source)} agrees better with the other sources than the reranker does, which is "
        f"more than chance ({evidence}): it may be the better judge, or read the same words as they do; see {dial}"
    )


def chance(p: float) -> str:
    """A p-value in words."""
    return "p < .001" if p < 0.001 else f"p = {p:.3f}".replace("0.", ".", 1)


BETS = np.geomspace(0.01, 0.99, 12)
"""Shares of the wealth that are bet on a smaller mean: the best one depends on the spread, so all share the stake."""


def mean_at_most(values: ArrayLike, level: float = 0.95) -> float:
    """Upper bound of the mean of values in [0, 1], which holds with probability ``level`` however often one looks.

    A gambler who bets against the mean m has the wealth mean over b of prod(1 + b (m - x)), a supermartingale if the
    mean is m. The bound is the smallest m at which the wealth reaches 1 / (1 - level) (Waudby-Smith and Ramdas, JRSS B
    2023, diversified Kelly betting; Ville's inequality). 1 without values.
    """
    x, counts = np.unique(np.asarray(values, dtype=float), return_counts=True)
    wanted = -math.log1p(-level) + math.log(len(BETS))

    def missing(mean: float) -> float:
        return float(np.logaddexp.reduce(np.log1p(BETS[:, None] * (mean - x)) @ counts)) - wanted

    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2.0
        low, high = (low, middle) if missing(middle) >= 0.0 else (middle, high)
    return high
