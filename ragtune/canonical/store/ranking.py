"""The best chunks by BM25 without scoring them all: MaxScore (Turtle and Flood 1995) over postings read term by term.

Rare terms are read first. Once the k-th best score so far exceeds what all unread terms could give together, no
chunk that has not been seen can be among the best, and of those seen only the ones near enough to the k-th are kept.
When they are few, the unread terms are looked up in them alone. Bounds are never below the score, so that the result is
that of scoring every chunk, to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragtune.canonical.store.lexical import K1, bm25, idf, norms
from ragtune.core.arrays import FloatArray

_SLACK = 2e-6  # scores are equal that are so to 6 decimals; sums in another order are off by far less
AT_ONCE = 200_000
"""Postings that are read without a thought, since scoring them costs less than asking twice."""

_DECIMALS = 6
_FIND = 3  # terms whose lookup takes as long as finding the chunk
_RECORD = np.dtype([("no", ">i4"), ("tf", ">i2"), ("length", ">i4")])
_GONE = np.dtype(">i4")


class Postings(NamedTuple):
    """The chunks that hold a term: numbers, ascending, with tf and length; each of shape (df,)."""

    nos: NDArray[np.int64]
    tf: FloatArray
    lengths: FloatArray


class Bound(NamedTuple):
    """What is known of a term: df, the most that tf / (tf + norm) can be, and its postings if they have been read."""

    term: str
    df: int
    most: float
    postings: Postings | None = None


Read = Callable[[Sequence[str]], Mapping[str, Postings]]
"""Postings by term."""

Lookup = Callable[[Sequence[str], NDArray[np.int64]], tuple[FloatArray, FloatArray]]
"""Lengths, shape (n,), and tf, shape (n, terms), of n chunks by number."""


def decode(present: Sequence[bytes], gone: Sequence[bytes]) -> Postings:
    """Postings from a term's blocks, in order, without the chunks that are gone."""
    records = np.frombuffer(b"".join(present), dtype=_RECORD)
    if gone:
        records = records[~np.isin(records["no"], np.frombuffer(b"".join(gone), dtype=_GONE))]
    return Postings(
        records["no"].astype(np.int64), records["tf"].astype(np.float64), records["length"].astype(np.float64)
    )


class Ranking:
    """The scores of one query, of which as few are computed as the asked for ranks need.

    Args:
        chunks: chunks of the collection.
        average: their average length.
        bounds: the query's terms that the collection has, in the query's order.
        read: reads the postings of terms.
        lookup: looks terms up in chunks.
        at_once: postings that are read at a time, if there is not one term that has more, >= 0.
        per_lookup: postings that take as long to read as one term of one chunk takes to look up, >= 1.
    """

    def __init__(
        self,
        chunks: int,
        average: float,
        bounds: Sequence[Bound],
        read: Read,
        lookup: Lookup,
        at_once: int = AT_ONCE,
        per_lookup: int = 30,
    ) -> None:
        self._average = average
        self._terms = [bound.term for bound in bounds]
        self._idf = {bound.term: idf(chunks, bound.df) for bound in bounds}
        self._most = {bound.term: self._idf[bound.term] * (K1 + 1.0) * bound.most for bound in bounds}
        self._df = {bound.term: bound.df for bound in bounds}
        self._unread = sorted(self._terms, key=lambda term: self._df[term], reverse=True)
        self._read_postings, self._lookup = read, lookup
        self._at_once, self._per_lookup = at_once, per_lookup
        self._postings: dict[str, Postings] = {}
        self._partial: FloatArray = np.zeros(0)
        given = {bound.term: bound.postings for bound in bounds if bound.postings is not None}
        self._unread = [term for term in self._unread if term not in given]
        self._add(given)

    @property
    def is_read(self) -> bool:
        """Whether the postings of all terms have been read."""
        return not self._unread

    @property
    def size(self) -> int:
        """Number of postings of all terms."""
        return sum(self._df.values())

    def best(self, k: int) -> tuple[NDArray[np.int64], FloatArray]:
        """Numbers and scores, to 6 decimals, of the k best chunks and all that tie with the last; best first."""
        while self._unread:
            seen = self._near(k)
            if seen is not None and self._is_less_to_look_up(len(seen)):
                return self._exact(seen, k)
            self._read_more()
        seen = self._near(k)
        return self._exact(np.flatnonzero(self._partial) if seen is None else seen, k)

    def among(self, nos: NDArray[np.int64], k: int) -> tuple[NDArray[np.int64], FloatArray]:
        """As :meth:`best`, of these chunks alone, as far as they hold a term."""
        while self._unread and not self._is_less_to_look_up(len(nos)):
            self._read_more()
        return self._exact(nos, k)

    def _is_less_to_look_up(self, chunks: int) -> bool:
        """Whether looking the unread terms up in so many chunks is faster than reading them."""
        looks = (_FIND + len(self._unread)) * chunks
        return looks * self._per_lookup <= sum(self._df[term] for term in self._unread)

    def _read_more(self) -> None:
        """The rarest terms whose postings are few together, at least one."""
        chosen = [self._unread.pop()]
        room = self._at_once - self._df[chosen[0]]
        while self._unread and self._df[self._unread[-1]] <= room:
            chosen.append(self._unread.pop())
            room -= self._df[chosen[-1]]
        self._add(self._read_postings(chosen))

    def _add(self, read: Mapping[str, Postings]) -> None:
        size = max((int(found.nos[-1]) + 1 for found in read.values() if len(found.nos)), default=0)
        if size > len(self._partial):
            grown = np.zeros(size)
            grown[: len(self._partial)] = self._partial
            self._partial = grown
        for term, found in read.items():
            self._postings[term] = found
            self._partial[found.nos] += bm25(self._idf[term], found.tf, norms(found.lengths, self._average))

    def _near(self, k: int) -> NDArray[np.int64] | None:
        """Numbers of all chunks that may be among the k best; None where some may be that have not been seen."""
        rest = sum(self._most[term] for term in self._unread)
        scores = self._partial[self._partial > 0]
        if len(scores) < k:
            return None
        least = float(np.partition(scores, len(scores) - k)[len(scores) - k])
        if least <= rest + _SLACK:
            return None
        return np.flatnonzero(self._partial >= least - rest - _SLACK)

    def _exact(self, nos: NDArray[np.int64], k: int) -> tuple[NDArray[np.int64], FloatArray]:
        """Scores summed in the order of the query's terms, as every store does, of chunks that hold one."""
        scores = np.zeros(len(nos))
        is_found = np.zeros(len(nos), dtype=np.bool_)
        looked_up = list(self._unread)
        lengths, tfs = self._lookup(looked_up, nos) if looked_up else (scores, scores[:, None])
        for term in self._terms:
            if term in self._postings:
                found = self._postings[term]
                places = np.searchsorted(found.nos, nos)
                held = places < len(found.nos)
                held[held] = found.nos[places[held]] == nos[held]
                there = places[held]
                tf, length = found.tf[there], found.lengths[there]
            else:
                column = tfs[:, looked_up.index(term)]
                held = column > 0
                tf, length = column[held], lengths[held]
            scores[held] += bm25(self._idf[term], tf, norms(length, self._average))
            is_found |= held
        nos, scores = nos[is_found], np.round(scores[is_found], _DECIMALS)
        order = np.argsort(-scores, kind="stable")
        if len(order) > k:
            order = order[: int(np.searchsorted(-scores[order], -scores[order[k - 1]], side="right"))]
        return nos[order], scores[order]
