"""The bounded ranking against scoring every chunk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ragtune.canonical.store.lexical import bm25, idf, norms
from ragtune.canonical.store.ranking import Bound, Postings, Ranking, decode
from ragtune.core.arrays import FloatArray

tables = st.integers(1, 40).flatmap(
    lambda chunks: st.lists(st.lists(st.integers(0, 3), min_size=chunks, max_size=chunks), min_size=1, max_size=6)
)


class World:
    """Chunks by tf, shape (terms, chunks), and what was asked of them."""

    def __init__(self, tf: Sequence[Sequence[int]], extra: int) -> None:
        self.tf = np.array(tf, dtype=np.float64)
        self.lengths: FloatArray = self.tf.sum(axis=0) + np.arange(self.tf.shape[1]) % (extra + 1)
        self.average = float(self.lengths.mean()) or 1.0
        self.names = [f"t{place}" for place in range(len(tf))]
        self.read_terms: list[str] = []
        self.looked_up = 0

    def postings(self, terms: Sequence[str]) -> Mapping[str, Postings]:
        self.read_terms += terms
        rows = {term: self.tf[self.names.index(term)] for term in terms}
        return {t: Postings(n := np.flatnonzero(row), row[n], self.lengths[n]) for t, row in rows.items()}

    def lookup(self, terms: Sequence[str], nos: NDArray[np.int64]) -> tuple[FloatArray, FloatArray]:
        self.looked_up += len(nos)
        return self.lengths[nos], self.tf[[self.names.index(term) for term in terms]][:, nos].T

    def ranking(self, at_once: int, per_lookup: int) -> Ranking:
        weight = norms(self.lengths, self.average)
        bounds = [
            Bound(name, int((row > 0).sum()), float((row / (row + weight))[row > 0].max()))
            for name, row in zip(self.names, self.tf, strict=True)
            if row.any()
        ]
        size = self.tf.shape[1]
        return Ranking(size, self.average, bounds, self.postings, self.lookup, at_once, per_lookup)

    def expected(self, k: int, among: NDArray[np.int64] | None = None) -> list[tuple[float, int]]:
        scores = np.zeros(self.tf.shape[1])
        for row in self.tf:
            n = np.flatnonzero(row)
            scores[n] += bm25(idf(len(scores), len(n)), row[n], norms(self.lengths[n], self.average))
        held = np.flatnonzero(self.tf.any(axis=0)) if among is None else among
        ranked = sorted((-round(float(scores[no]), 6), int(no)) for no in held)
        return [one for one in ranked if len(ranked) <= k or one[0] <= ranked[k - 1][0]]


def pairs(found: tuple[NDArray[np.int64], FloatArray]) -> list[tuple[float, int]]:
    return sorted((-float(score), int(no)) for no, score in zip(*found, strict=True))


@settings(deadline=None, max_examples=300)
@given(tables, st.integers(0, 5), st.integers(1, 12), st.sampled_from([0, 5, 1000]), st.sampled_from([0, 1, 1000]))
def test_it_is_that_of_scoring_every_chunk_however_little_is_read(
    tf: list[list[int]], extra: int, k: int, at_once: int, per_lookup: int
) -> None:
    world = World(tf, extra)
    ranking = world.ranking(at_once, per_lookup)
    assert pairs(ranking.best(k)) == world.expected(k)
    assert pairs(ranking.best(4 * k)) == world.expected(4 * k)
    half = np.flatnonzero(world.tf.any(axis=0))[::2]
    assert pairs(world.ranking(at_once, per_lookup).among(half, k)) == world.expected(k, half)


def test_frequent_terms_are_not_read_where_rare_ones_decide() -> None:
    tf = np.ones((3, 4000))
    tf[0] = np.arange(4000) % 400 == 0
    tf[0, ::800] = 3
    world = World(tf.astype(int).tolist(), 0)
    found = world.ranking(at_once=0, per_lookup=1).best(5)
    assert world.read_terms == ["t0"]
    assert world.looked_up == 5
    assert pairs(found) == world.expected(5)


def test_what_is_gone_is_in_no_postings() -> None:
    block = np.array([(1, 2, 9), (4, 1, 7)], dtype=[("no", ">i4"), ("tf", ">i2"), ("length", ">i4")]).tobytes()
    later = np.array([(6, 1, 3)], dtype=[("no", ">i4"), ("tf", ">i2"), ("length", ">i4")]).tobytes()
    found = decode([block, later], [np.array([4], dtype=">i4").tobytes()])
    assert [column.tolist() for column in found] == [[1, 6], [2.0, 1.0], [9.0, 3.0]]


@pytest.mark.parametrize("given", [[], [Bound("t", 1, 0.5)]])
def test_a_query_whose_terms_nobody_has_finds_nothing(given: list[Bound]) -> None:
    empty = Postings(np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0))
    nothing = Ranking(9, 1.0, given, lambda terms: dict.fromkeys(terms, empty), lambda *_: (np.zeros(0), np.zeros(0)))
    assert pairs(nothing.best(3)) == []
