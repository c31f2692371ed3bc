"""Vectors of texts that hold 1 + ln(tf) of the stemmed terms, hashed to columns (Weinberger et al., ICML 2009)."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from ragtune.core.arrays import IntArray
from ragtune.data.text import term_of, words_in_bytes

_COLUMNS = 2**20
_MOST_CHARACTERS = 8_000_000  # of the texts whose vectors are remembered
_AT_ONCE = 50  # texts; their letters stay in the processor's cache
_WORD = 0xFFFFFFFF
_MIX = np.uint64(0x9E3779B97F4A7C15)  # any odd number with mixed bits
_HASHED = 24  # bytes of a word; a longer one is looked up by itself
_FIRST_BYTES = np.array([(1 << 8 * n) - 1 for n in range(9)], "<u8")  # of eight, n of them
_SLOT_BITS = 19
_slot_hashes, _slot_columns = np.zeros(2**_SLOT_BITS, np.uint64), np.zeros(2**_SLOT_BITS, np.int64)  # of one word each
_lock = threading.Lock()


def term_vectors(texts: Sequence[str]) -> Any:
    """One row of length 1 a text, zeros for a text without terms; scipy CSR of shape (n, 2**20)."""
    from scipy.sparse import csr_matrix

    if not texts:
        return csr_matrix((0, _COLUMNS))
    rows = _latest.of(texts)
    ends = np.cumsum([0, *(len(columns) for columns, _ in rows)])
    columns, values = (np.concatenate(parts) for parts in zip(*rows, strict=True))
    return csr_matrix((values, columns, ends), shape=(len(texts), _COLUMNS))


class _LatestRows(dict[str, tuple[Any, Any]]):
    """Columns and values of the latest texts, as many documents are candidates of many requests. Thread-safe."""

    _characters = 0

    def of(self, texts: Sequence[str]) -> list[tuple[Any, Any]]:
        known = {text: row for text in texts if (row := self.get(text)) is not None}
        new = [text for text in dict.fromkeys(texts) if text not in known]
        for some in (new[begin : begin + _AT_ONCE] for begin in range(0, len(new), _AT_ONCE)):
            made = dict(zip(some, _rows_of(some), strict=True))
            known |= made
            size = sum(map(len, some))
            with _lock:
                if self._characters + size > _MOST_CHARACTERS:
                    self.clear()
                    self._characters = 0
                if size <= _MOST_CHARACTERS:
                    self.update(made)
                    self._characters += size
        return [known[text] for text in texts]


_latest = _LatestRows()


def _rows_of(texts: Sequence[str]) -> Iterator[tuple[Any, Any]]:
    places, columns = _words_of(texts)
    terms = np.sort((places * _COLUMNS + columns)[columns >= 0])
    firsts = np.diff(terms, prepend=-1).nonzero()[0]
    values = 1.0 + np.log(np.diff(firsts, append=len(terms)))
    places, columns = terms[firsts] // _COLUMNS, (terms[firsts] & (_COLUMNS - 1)).astype(np.int32)
    values /= np.sqrt(np.bincount(places, values * values, len(texts)))[places]
    for begin, end in pairwise(places.searchsorted(range(len(texts) + 1)).tolist()):
        yield columns[begin:end].copy(), values[begin:end].copy()


def _words_of(texts: Sequence[str]) -> tuple[IntArray, IntArray]:
    """Of each word the place of its text, and its column, which is looked up by a hash in an array.

    The hash is a polynomial of the word's length and its first bytes, eight of them a number.
    """
    parts = list(map(words_in_bytes, texts))
    joined = b" ".join((b"", *parts, b" " * _HASHED))
    is_letter = np.frombuffer(joined, np.uint8) != ord(" ")
    edges = (is_letter[1:] != is_letter[:-1]).nonzero()[0]
    begins, ends = edges[::2], edges[1::2]  # the blank before a word, and its last letter
    lengths = ends - begins
    hashes = lengths.astype(np.uint64)
    eights = np.ndarray(len(joined) - 7, "<u8", joined, strides=(1,)).copy()  # from each place on
    for at in range(0, _HASHED, 8):
        hashes = hashes * _MIX + (eights[begins + (at + 1)] & _FIRST_BYTES[(lengths - at).clip(0, 8)])
    hashes *= _MIX
    slots = hashes >> (64 - _SLOT_BITS)
    with _lock:
        columns = _slot_columns[slots]
        others = ((_slot_hashes[slots] != hashes) | (lengths > _HASHED)).nonzero()[0]
        words = [joined[begins[i] + 1 : ends[i] + 1].decode("utf-8", "surrogatepass") for i in others.tolist()]
        columns[others] = list(map(_column, words))
        _slot_hashes[slots[others]], _slot_columns[slots[others]] = hashes[others], columns[others]
    bounds = np.cumsum([0, *(len(part) + 1 for part in parts)])
    return np.repeat(np.arange(len(texts)), np.diff(begins.searchsorted(bounds))), columns


@lru_cache(maxsize=500_000)
def _column(word: str) -> int:
    """The column of a word's term, as scikit-learn's FeatureHasher has it; -1 without one."""
    term = term_of(word)
    return abs(_murmur3(term.encode())) % _COLUMNS if term else -1


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
