"""The bounded ranking against scoring every chunk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ragtune.canonical.store.lexical import bm25, idf, norms
from ragtune.canonical.store.ranking import RANGE_BITS, Block, Bound, Postings, Ranking, decode, decode_lengths
from ragtune.core.arrays import FloatArray

tables = st.integers(1, 40).flatmap(
    lambda chunks: st.lists(st.lists(st.integers(0, 3), min_size=chunks, max_size=chunks), min_size=1, max_size=6)
)


class World:
    """Chunks by tf, shape (terms, chunks), and what was asked of them."""

    def __init__(self, tf: Sequence[Sequence[int]], extra: int) -> None:
        self.tf = np.array(tf, dtype=np.float64)
        self.lengths = (self.tf.sum(axis=0) + np.arange(self.tf.shape[1]) % (extra + 1)).astype(np.int32)
        self.average = float(self.lengths.mean()) or 1.0
        self.names = [f"t{place}" for place in range(len(tf))]
        self.read_terms: list[str] = []
        self.looked_up = 0

    def postings(self, terms: Sequence[str]) -> Mapping[str, Postings]:
        self.read_terms += terms
        rows = {term: self.tf[self.names.index(term)] for term in terms}
        return {t: Postings(n := np.flatnonzero(row), row[n].astype(np.float32)) for t, row in rows.items()}

    def lookup(self, terms: Sequence[str], nos: NDArray[np.int64]) -> FloatArray:
        self.looked_up += len(nos)
        found: FloatArray = self.tf[[self.names.index(term) for term in terms]][:, nos].T
        return found

    def ranking(self, at_once: int, per_lookup: int) -> Ranking:
        weight = norms(self.lengths.astype(np.float64), self.average)
        bounds = [
            Bound(name, int((row > 0).sum()), float((row / (row + weight))[row > 0].max()))
            for name, row in zip(self.names, self.tf, strict=True)
            if row.any()
        ]
        size = self.tf.shape[1]
        return Ranking(size, self.average, self.lengths, bounds, self.postings, self.lookup, at_once, per_lookup)

    def expected(self, k: int, among: NDArray[np.int64] | None = None) -> list[tuple[float, int]]:
        scores = np.zeros(self.tf.shape[1])
        for row in self.tf:
            n = np.flatnonzero(row)
            scores[n] += bm25(idf(len(scores), len(n)), row[n], norms(self.lengths[n].astype(np.float64), self.average))
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
    def block(first: int, sign: int, *packed: int) -> Block:
        return Block(first, sign * len(packed), np.array(packed, dtype=">i4").tobytes())

    far = 3 << RANGE_BITS
    found = decode([block(1, 1, 1 << 8 | 2, 4 << 8 | 1), block(far + 6, 1, 6 << 8 | 255), block(4, -1, 4 << 8)])
    assert [column.tolist() for column in found] == [[1, far + 6], [2.0, 255.0]]
    assert decode_lengths([block(0, 1, 9, 70000), block(2, 1, 0)]).tolist() == [9, 70000, 0]


@pytest.mark.parametrize("given", [[], [Bound("t", 1, 0.5)]])
def test_a_query_whose_terms_nobody_has_finds_nothing(given: list[Bound]) -> None:
    empty = Postings(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32))
    lengths = np.ones(9, dtype=np.int32)
    nothing = Ranking(9, 1.0, lengths, given, lambda terms: dict.fromkeys(terms, empty), lambda *_: np.zeros((0, 1)))
    assert pairs(nothing.best(3)) == []
