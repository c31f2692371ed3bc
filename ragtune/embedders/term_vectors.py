"""Vectors of texts that hold 1 + ln(tf) of the stemmed terms, hashed to columns (Weinberger et al., ICML 2009)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from ragtune.core.arrays import IntArray
from ragtune.data.text import latin_and_others, term_of, words_or_pairs

_COLUMNS = 2**20
_MOST_WORDS = 500_000
_MOST_CHARACTERS = 8_000_000  # of the texts whose vectors are remembered
_AT_ONCE = 50  # texts; their letters stay in the processor's cache
_LONG = 2**16  # letters
_BASE = 0x9E3779B97F4A7C15  # of the words' hashes; any odd number whose bits are mixed
_SLOT_BITS = 19
_WORD = 0xFFFFFFFF

Row = tuple[Any, Any]
"""Columns, ascending, and values of one text."""


def term_vectors(texts: Sequence[str]) -> Any:
    """One row of length 1 a text, zeros for a text without terms; scipy CSR of shape (n, 2**20)."""
    from scipy.sparse import csr_matrix

    if not texts:
        return csr_matrix((0, _COLUMNS))
    rows = _latest.rows(texts)
    ends = np.cumsum([0, *(len(columns) for columns, _ in rows)])
    columns, values = (np.concatenate(parts) for parts in zip(*rows, strict=True))
    return csr_matrix((values, columns, ends), shape=(len(texts), _COLUMNS))


class _LatestRows(dict[str, Row]):
    """Rows of the latest texts, as many documents are candidates of many requests. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._characters = 0

    def rows(self, texts: Sequence[str]) -> list[Row]:
        known = {text: row for text in texts if (row := self.get(text)) is not None}
        new = [text for text in dict.fromkeys(texts) if text not in known]
        for begin in range(0, len(new), _AT_ONCE):
            some = new[begin : begin + _AT_ONCE]
            made = dict(zip(some, _rows_of(some), strict=True))
            known |= made
            self._remember(made)
        return [known[text] for text in texts]

    def _remember(self, rows: dict[str, Row]) -> None:
        size = sum(map(len, rows))
        with self._lock:
            if self._characters + size > _MOST_CHARACTERS:
                self.clear()
                self._characters = 0
            if size <= _MOST_CHARACTERS:
                self.update(rows)
                self._characters += size


_latest = _LatestRows()


def _rows_of(texts: Sequence[str]) -> Iterator[Row]:
    places, columns = _words_of(texts)
    has_term = columns >= 0
    terms = np.sort(places[has_term] * _COLUMNS + columns[has_term])
    is_first = np.ones(len(terms), dtype=bool)
    np.not_equal(terms[1:], terms[:-1], out=is_first[1:])
    firsts = is_first.nonzero()[0]
    counts = np.diff(firsts, append=len(terms))
    places, columns = np.divmod(terms[firsts], _COLUMNS)
    values = 1.0 + np.log(counts)
    values /= np.sqrt(np.bincount(places, values * values, len(texts)))[places]
    columns = columns.astype(np.int32)
    for begin, end in pairwise(places.searchsorted(range(len(texts) + 1)).tolist()):
        yield columns[begin:end].copy(), values[begin:end].copy()


def _words_of(texts: Sequence[str]) -> tuple[IntArray, IntArray]:
    """The place of the text of each word, and the word's column."""
    parts = [latin_and_others(text) if len(text) <= _LONG else (b"", words_or_pairs(text)) for text in texts]
    latin, others = zip(*parts, strict=True)
    places, columns = _latin_words_of(latin)
    counts = list(map(len, others))
    found = np.array([_column[word] for words in others for word in words], dtype=np.int64)
    return np.append(places, np.repeat(np.arange(len(texts)), counts)), np.append(columns, found)


def _latin_words_of(texts: Sequence[bytes]) -> tuple[IntArray, IntArray]:
    """As :func:`_words_of`.

    A word's hash is the sum of letter * _BASE**place, with places from 1, modulo 2**64. Differences of running sums
    are the hashes of all words, but with places in the text: dividing by _BASE**begin puts this right.
    """
    powers, inverses = _powers()
    joined = b" ".join((b"", *texts, b""))
    letters = np.frombuffer(joined, np.uint8)
    bounds = np.cumsum([0, *(len(text) + 1 for text in texts)])
    is_letter = letters != ord(" ")
    edges = (is_letter[1:] != is_letter[:-1]).nonzero()[0]
    begins, ends = edges[::2], edges[1::2]  # the blank before a word, and its last letter
    firsts = begins.searchsorted(bounds)  # words of the texts
    places = np.repeat(np.arange(len(texts)), np.diff(firsts))
    sums = np.cumsum(letters * np.concatenate([*(powers[: len(text) + 1] for text in texts), powers[:1]]))
    hashes = (sums[ends] - sums[begins]) * inverses[begins - bounds[places]]
    return places, _known_words.columns(hashes, lambda i: joined[begins[i] + 1 : ends[i] + 1].decode("latin-1"))


@cache
def _powers() -> tuple[Any, Any]:
    """Of the hashes' base and its inverse, from 0 on."""
    factors = np.full((2, _LONG + 2), [[_BASE], [pow(_BASE, -1, 2**64)]], dtype=np.uint64)
    factors[:, 0] = 1
    powers, inverses = np.cumprod(factors, axis=1)
    return powers, inverses


class _KnownWords:
    """Columns by a word's hash; each hash has one slot, in which it takes the place of another. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._hashes = np.zeros(2**_SLOT_BITS, dtype=np.uint64)
        self._columns = np.zeros(2**_SLOT_BITS, dtype=np.int64)

    def columns(self, hashes: Any, word: Callable[[int], str]) -> IntArray:
        """The columns of n words; ``word`` gives one by its place."""
        slots = hashes >> (64 - _SLOT_BITS)
        with self._lock:
            columns: IntArray = self._columns[slots]
            others = (self._hashes[slots] != hashes).nonzero()[0]
            if len(others):
                columns[others] = [_column[word(i)] for i in others.tolist()]
                self._hashes[slots[others]] = hashes[others]
                self._columns[slots[others]] = columns[others]
        return columns


_known_words = _KnownWords()


class _Columns(dict[str, int]):
    """Column of a word's term, as scikit-learn's FeatureHasher has it, -1 without one; begun anew when full."""

    def __missing__(self, word: str) -> int:
        if len(self) >= _MOST_WORDS:
            self.clear()
        term = term_of(word)
        column = self[word] = abs(_murmur3(term.encode())) % _COLUMNS if term else -1
        return column


_column = _Columns()


def _murmur3(data: bytes) -> int:
    """MurmurHash3 (Appleby 2011) for x86, 32 bits, signed, with seed 0."""
    state, whole = 0, len(data) & ~3
    blocks = [int.from_bytes(data[i : i + 4], "little") for i in range(0, len(data), 4)]
    for i, block in enumerate(blocks):
        mixed = block * 0xCC9E2D51 & _WORD
        state ^= (mixed << 15 | mixed >> 17) * 0x1B873593 & _WORD
        if 4 * i < whole:
            state = ((state << 13 | state >> 19) & _WORD) * 5 + 0xE6546B64 & _WORD
    state ^= len(data)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        state = (state ^ state >> shift) * factor & _WORD
    return state - (state >> 31 << 32)
