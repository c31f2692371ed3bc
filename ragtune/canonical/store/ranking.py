"""The best chunks by BM25 without scoring them all: MaxScore (Turtle and Flood 1995) over postings read term by term.

Rare terms are read first. The chunks that are best by them are looked up in full, which tells early what the k-th best
score is at least. Once that exceeds what all unread terms could give together, no chunk that has not been seen can be
among the best, and of those seen only the ones near enough are followed. When they are few, the unread terms are looked
up in them alone. Bounds are never below the score, so that the result is that of scoring every chunk, to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragtune.canonical.store.lexical import K1, bm25, idf, norms
from ragtune.core.arrays import FloatArray

_SLACK = 1e-3  # more than sums in single precision, in any order, can be off
AT_ONCE = 400_000
"""Postings that are read without a thought, since scoring them costs less than asking twice."""

_DECIMALS = 6
_FIND = 6  # terms whose lookup takes as long as finding the chunk
RANGE_BITS = 16
"""A block of postings has chunks whose numbers are alike but for so many last bits."""

TF_BITS = 8
"""A posting is a number's last bits, and so many of tf, in four bytes."""


class Postings(NamedTuple):
    """The chunks that hold a term: numbers, ascending, and tf; each of shape (df,)."""

    nos: NDArray[np.int64]
    tf: NDArray[np.float32]


class Bound(NamedTuple):
    """What is known of a term: df, the most that tf / (tf + norm) can be, and its postings if they have been read."""

    term: str
    df: int
    most: float
    postings: Postings | None = None


class Block(NamedTuple):
    """Some of a term's postings: the first number, how many (negative: of chunks that are gone), and as stored."""

    first: int
    n: int
    content: bytes


Read = Callable[[Sequence[str]], Mapping[str, Postings]]
"""Postings by term."""

Lookup = Callable[[Sequence[str], NDArray[np.int64]], FloatArray]
"""tf, shape (n, terms), of n chunks by number, ascending."""


def decode(blocks: Sequence[Block]) -> Postings:
    """Postings from a term's blocks, in order, without the chunks that are gone."""
    nos, tf = _unpacked([block for block in blocks if block.n > 0])
    gone, _ = _unpacked([block for block in blocks if block.n < 0])
    if len(gone):
        kept = ~np.isin(nos, gone)
        nos, tf = nos[kept], tf[kept]
    return Postings(nos, tf.astype(np.float32))


def decode_lengths(blocks: Sequence[Block]) -> NDArray[np.int32]:
    """Lengths by number, shape (numbers,), from the blocks that hold them, in order, from number 0 on."""
    return np.frombuffer(b"".join(block.content for block in blocks), dtype=">i4").astype(np.int32)


def _unpacked(blocks: Sequence[Block]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    packed = np.frombuffer(b"".join(block.content for block in blocks), dtype=">i4").astype(np.int64)
    start = [block.first >> RANGE_BITS << RANGE_BITS for block in blocks]
    nos = (packed >> TF_BITS) + np.repeat(np.array(start, dtype=np.int64), [abs(block.n) for block in blocks])
    return nos, packed & ((1 << TF_BITS) - 1)


class Ranking:
    """The scores of one query, of which as few are computed as the asked for ranks need.

    Args:
        chunks: chunks of the collection.
        average: their average length.
        lengths: their lengths by number, shape (numbers,); of chunks that are gone, any.
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
        lengths: NDArray[np.int32],
        bounds: Sequence[Bound],
        read: Read,
        lookup: Lookup,
        at_once: int = AT_ONCE,
        per_lookup: int = 500,
    ) -> None:
        self._average, self._lengths = average, lengths
        self._terms = [bound.term for bound in bounds]
        self._idf = {bound.term: idf(chunks, bound.df) for bound in bounds}
        self._most = {bound.term: self._idf[bound.term] * (K1 + 1.0) * bound.most for bound in bounds}
        self._df = {bound.term: bound.df for bound in bounds}
        self._read_postings, self._lookup = read, lookup
        self._at_once, self._per_lookup = at_once, per_lookup
        self._postings: dict[str, Postings] = {bound.term: bound.postings for bound in bounds if bound.postings}
        rarest_last = sorted(self._terms, key=lambda term: self._df[term], reverse=True)
        self._unread = [term for term in rarest_last if term not in self._postings]

    @property
    def size(self) -> int:
        """Number of postings of all terms."""
        return sum(self._df.values())

    def best(self, k: int) -> tuple[NDArray[np.int64], FloatArray]:
        """Numbers and scores, to 6 decimals, of the k best chunks and all that tie with the last; best first."""
        norm = norms(self._lengths.astype(np.float32), self._average)
        partial = np.zeros(len(norm), dtype=np.float32)
        for term in self._postings:
            self._score(term, partial, norm)
        least, known = 0.0, dict[int, float]()
        while (rest := self._rest()) and least <= rest + _SLACK:
            least = self._least(partial, k, least, known)
            if least <= rest + _SLACK:
                for term in self._read_more():
                    self._score(term, partial, norm)
        least = _kth(partial, k, least)
        nos = np.flatnonzero(partial > max(0.0, least - rest - _SLACK))
        return self._exact(self._followed(nos, partial[nos], norm[nos], least, k), k)

    def among(self, nos: NDArray[np.int64], k: int) -> tuple[NDArray[np.int64], FloatArray]:
        """As :meth:`best`, of these chunks alone, as far as they hold a term."""
        while self._unread and not self._is_less_to_look_up(len(nos)):
            self._read_more()
        return self._exact(nos, k)

    def _rest(self) -> float:
        """The most that all unread terms can give together."""
        return sum(self._most[term] for term in self._unread)

    def _least(self, partial: NDArray[np.float32], k: int, before: float, known: dict[int, float]) -> float:
        """What the k-th best score is at least: by the terms read so far, or by all terms of those best by them."""
        kth = _kth(partial, k, before)
        if not kth:
            return kth
        first = [no for no in np.flatnonzero(partial >= kth)[: 2 * k].tolist() if no not in known]
        if first and kth <= self._rest() + _SLACK and self._is_less_to_look_up(len(first)):
            known.update(zip(first, self._scores(np.array(first, dtype=np.int64))[0].tolist(), strict=True))
        return max(kth, _kth(np.array(list(known.values())), k, 0.0))

    def _followed(
        self, nos: NDArray[np.int64], partial: NDArray[np.float32], norm: NDArray[np.float32], least: float, k: int
    ) -> NDArray[np.int64]:
        """Those of the chunks that stay near enough to the k-th best, while unread terms are many for them."""
        while self._unread and not self._is_less_to_look_up(len(nos)):
            for term in self._read_more():
                held, there = _places(self._postings[term].nos, nos)
                partial[held] += bm25(self._idf[term], self._postings[term].tf[there], norm[held])
            least = _kth(partial, k, least)
            kept = partial > least - self._rest() - _SLACK
            nos, partial, norm = nos[kept], partial[kept], norm[kept]
        return nos

    def _is_less_to_look_up(self, chunks: int) -> bool:
        """Whether looking the unread terms up in so many chunks is faster than reading them."""
        looks = (_FIND + len(self._unread)) * chunks
        return looks * self._per_lookup <= sum(self._df[term] for term in self._unread)

    def _read_more(self) -> list[str]:
        """The rarest terms whose postings are few together, at least one, which are read."""
        chosen = [self._unread.pop()]
        room = self._at_once - self._df[chosen[0]]
        while self._unread and self._df[self._unread[-1]] <= room:
            chosen.append(self._unread.pop())
            room -= self._df[chosen[-1]]
        self._postings |= self._read_postings(chosen)
        return chosen

    def _score(self, term: str, partial: NDArray[np.float32], norm: NDArray[np.float32]) -> None:
        """Add a term's part of the scores to all chunks that hold it."""
        nos, tf = self._postings[term]
        partial[nos] += bm25(self._idf[term], tf, norm[nos])

    def _scores(self, nos: NDArray[np.int64]) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Scores summed in the order of the query's terms, as every store does, and which chunks hold one."""
        scores = np.zeros(len(nos))
        is_found = np.zeros(len(nos), dtype=np.bool_)
        norm = norms(self._lengths[nos].astype(np.float64), self._average)
        unread = list(self._unread)
        looked_up = dict(zip(unread, self._lookup(unread, nos).T, strict=True)) if unread else {}
        for term in self._terms:
            if term in looked_up:
                held = np.flatnonzero(looked_up[term])
                tf = looked_up[term][held]
            else:
                held, there = _places(self._postings[term].nos, nos)
                tf = self._postings[term].tf[there].astype(np.float64)
            scores[held] += bm25(self._idf[term], tf, norm[held])
            is_found[held] = True
        return scores, is_found

    def _exact(self, nos: NDArray[np.int64], k: int) -> tuple[NDArray[np.int64], FloatArray]:
        """The k best of the chunks that hold a term, and all that tie with the last."""
        scores, is_found = self._scores(nos)
        nos, scores = nos[is_found], np.round(scores[is_found], _DECIMALS)
        order = np.argsort(-scores, kind="stable")
        if len(order) > k:
            order = order[: int(np.searchsorted(-scores[order], -scores[order[k - 1]], side="right"))]
        return nos[order], scores[order]


def _kth(scores: NDArray[np.floating[Any]], k: int, floor: float) -> float:
    """The k-th largest of the scores that are above 0; the floor, which it is known to reach, where they are fewer."""
    scores = scores[scores >= floor] if floor else scores[scores > 0]
    return float(np.partition(scores, len(scores) - k)[len(scores) - k]) if len(scores) >= k else floor


def _places(held: NDArray[np.int64], nos: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Which of the numbers are held, by their places, and where; all ascending."""
    places = np.searchsorted(held, nos)
    inside = np.flatnonzero(places < len(held))
    found = inside[held[places[inside]] == nos[inside]]
    return found, places[found]
