"""Text vectors from the candidates of a request alone."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from ragtune.core.arrays import FloatArray
from ragtune.core.errors import InputError
from ragtune.core.interfaces import BaseEmbedder
from ragtune.core.plain import quoted
from ragtune.core.pool.columns import squarable
from ragtune.core.pool.items import PoolItem, facts_of
from ragtune.data.corpus import Corpus
from ragtune.data.text import term_of, words_or_pairs

_COLUMNS = 2**20
_MOST_WORDS = 500_000
_WORD = 0xFFFFFFFF
_MOST_CHARACTERS = 8_000_000  # of the texts whose term vectors are remembered

VECTOR = "vector"
"""The key of a document's metadata that holds its vector, if it has one."""


class CandidateVectors:
    """Vectors of a request's candidates, for callers who have candidates and no collection.

    If every candidate has a vector (``metadata["vector"]``), these are used. Else the embedder makes them; without one,
    they hold 1 + ln(tf) of the stemmed terms, hashed to columns (Weinberger et al., ICML 2009). There are no document
    frequencies: those of a hundred candidates are highest for the terms of the query (nDCG@10 at 20 documents .712
    without and .696 with them on TREC DL 2019, .350 both times on nfcorpus; the whole collection's give .710 and .356).
    """

    def __init__(self, corpus: Corpus | None = None, embedder: BaseEmbedder | None = None) -> None:
        self._embedder = embedder
        self.are_words = embedder is None
        # Now, so that no request is charged the time.
        if embedder is not None:
            embedder.prepare()
        else:
            _term_vectors(["ready"])

    def of(self, items: Sequence[PoolItem]) -> Any:
        from scipy.sparse import csr_matrix

        facts = facts_of(items)
        own = [fact.metadata.get(VECTOR) for fact in facts]
        if own and all(vector is not None for vector in own):
            return csr_matrix(normalised(own))
        return self._vectors_of([fact.content for fact in facts])

    def of_query(self, text: str) -> Any:
        return self._vectors_of([text])

    def _vectors_of(self, texts: Sequence[str]) -> Any:
        from scipy.sparse import csr_matrix

        if self._embedder is None:
            return _term_vectors(texts)
        return csr_matrix(np.asarray(self._embedder.embed(texts), dtype=np.float64))


def normalised(vectors: Sequence[Any]) -> FloatArray:
    """Return a caller's vectors, shape (n, d), each divided by its length; a vector of zeros stays as it is."""
    rows: list[FloatArray] = []
    for i, vector in enumerate(vectors):
        try:
            row = np.asarray(vector, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            row = np.array(np.nan)
        if row.ndim != 1 or not np.isfinite(row).all():
            raise _refused(f"vector {i} is {quoted(vector)}")
        if rows and len(row) != len(rows[0]):
            raise _refused(f"vector {i} has {len(row)}, vector 0 has {len(rows[0])}")
        rows.append(row)
    stacked = squarable(np.array(rows), axis=1)
    lengths = np.linalg.norm(stacked, axis=1, keepdims=True)
    return stacked / np.where(lengths > 0, lengths, 1.0)


def _refused(why: str) -> InputError:
    allowed = "allowed is one vector a document"
    return InputError(f"the candidates' vectors are not finite numbers of one length ({why}): {allowed}")


class _Columns(dict[str, int]):
    """Column of a word's term, as scikit-learn's FeatureHasher has it, -1 without one; begun anew when full."""

    def __missing__(self, word: str) -> int:
        if len(self) >= _MOST_WORDS:
            self.clear()
        term = term_of(word)
        column = self[word] = abs(murmur3(term.encode())) % _COLUMNS if term else -1
        return column


_columns = _Columns()


def murmur3(data: bytes) -> int:
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


class _Rows(dict[str, tuple[Any, Any]]):
    """Term vectors by text, as columns and values; begun anew when the texts have too many characters. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._characters = 0

    def add(self, rows: dict[str, tuple[Any, Any]]) -> None:
        size = sum(map(len, rows))
        with self._lock:
            if self._characters + size > _MOST_CHARACTERS:
                self.clear()
                self._characters = 0
            if size <= _MOST_CHARACTERS:
                self.update(rows)
                self._characters += size


_rows = _Rows()


def _term_vectors(texts: Sequence[str]) -> Any:
    """One row a text; those of the latest texts are remembered, as many documents are candidates of many requests."""
    from scipy.sparse import csr_matrix

    rows = {text: row for text in texts if (row := _rows.get(text)) is not None}
    if new := [text for text in dict.fromkeys(texts) if text not in rows]:
        made = _made_vectors(new)
        for text, begin, end in zip(new, made.indptr, made.indptr[1:], strict=False):
            rows[text] = made.indices[begin:end].copy(), made.data[begin:end].copy()
        _rows.add({text: rows[text] for text in new})
    if not texts:
        return csr_matrix((0, _COLUMNS))
    found = [rows[text] for text in texts]
    ends = np.cumsum([0, *(len(columns) for columns, _ in found)])
    columns, values = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return csr_matrix((values, columns, ends), shape=(len(texts), _COLUMNS))


def _made_vectors(texts: Sequence[str]) -> Any:
    from scipy.sparse import csr_matrix

    n, found = len(texts), list(map(words_or_pairs, texts))
    places = np.repeat(np.arange(n), list(map(len, found))) * _COLUMNS
    columns = np.fromiter(map(_columns.__getitem__, chain.from_iterable(found)), np.int64, len(places))
    places = np.sort((places + columns)[columns >= 0])
    begins = np.diff(places, prepend=-1).nonzero()[0]
    counts = np.diff(begins, append=len(places))
    rows, columns = np.divmod(places[begins], _COLUMNS)
    data = 1.0 + np.log(counts)
    data /= np.sqrt(np.bincount(rows, data * data, n))[rows]
    ends = np.searchsorted(rows, np.arange(n + 1))
    return csr_matrix((data, columns.astype(np.int32), ends.astype(np.int32)), shape=(n, _COLUMNS))
