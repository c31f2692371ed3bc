"""The lexical score, and the stored form of postings."""

from __future__ import annotations

import math

import numpy as np

from ragtune.canonical.store.lexical import K1, B, Postings, bm25, decode


def block(*postings: tuple[int, int, int], is_gone: bool = False) -> tuple[int, bytes]:
    values = np.array([place << 32 | tf << 24 | length for place, tf, length in postings], dtype=">i8")
    return len(postings) * (-1 if is_gone else 1), values.tobytes()


def test_postings_of_deleted_chunks_are_left_out() -> None:
    blocks = [block((1, 2, 9), (4, 1, 7)), block((2**31 - 1, 255, 2**24 - 1)), block((4, 0, 0), is_gone=True)]
    assert [column.tolist() for column in decode(blocks)] == [[1, 2**31 - 1], [2, 255], [9, 2**24 - 1]]


def test_scores_are_bm25_and_chunks_without_a_term_have_none() -> None:
    tea = Postings(*np.array([[0, 3], [2, 1], [5, 3]]))
    green = Postings(*np.array([[3], [1], [3]]))
    scores = bm25([tea, green, decode([])], chunks=4, terms=16, size=5)

    def part(df: int, tf: int, length: int) -> float:
        idf = math.log(1 + (4 - df + 0.5) / (df + 0.5))
        return idf * tf * (K1 + 1) / (tf + K1 * (1 - B + B * length / 4))

    expected = [part(2, 2, 5), math.nan, math.nan, part(2, 1, 3) + part(1, 1, 3), math.nan]
    np.testing.assert_allclose(scores, expected, atol=1e-6)
