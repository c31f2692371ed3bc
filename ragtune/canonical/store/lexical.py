"""The lexical score that every store computes: BM25 over the term frequencies of a ``tsvector``.

BM25 (Robertson and Zaragoza 2009; idf as in Lucene and bm25s' default) with k1 = 1.5 and b = 0.75::

    sum over the query's distinct terms of  idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / average length))
    idf = ln(1 + (N - df + 0.5) / (df + 0.5))

N, df and the average length are those of the whole collection, with any filter. Terms are those of the collection's
analyzer, not of a text search configuration of the server. In the ``tsvector`` a lexeme has one position for each
occurrence. PostgreSQL's limits hold for every store: a term of more than 255 bytes is no term, tf counts up to 255, and
of very many distinct terms of a chunk only the first million bytes are indexed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ragtune.canonical.analyzers import Analyzer
from ragtune.canonical.normalization import check_string
from ragtune.core.arrays import FloatArray, IntArray

K1 = 1.5
B = 0.75
MAX_QUERY_TERMS = 128
"""Distinct terms of a query that count; those that come first."""

_MAX_TERM_BYTES = 255
_MAX_TF = 255  # MAXNUMPOS of tsvector is 256, exclusive
_MAX_BYTES = 1_000_000  # a tsvector holds at most 2**20 - 1 bytes of lexemes and positions


class Postings(NamedTuple):
    """The chunks that hold a term, by number, with their tf and their lengths in terms; shape (df,) each."""

    places: IntArray
    tf: IntArray
    lengths: IntArray


def bm25(postings: Iterable[Postings], chunks: int, terms: int, size: int) -> FloatArray:
    """BM25 of every chunk to 6 decimals, shape (size,), above all places. NaN where a chunk holds no term."""
    scores = np.zeros(size, dtype=np.float64)
    for places, tf, lengths in postings:
        if not len(places):
            continue
        idf = math.log(1.0 + (chunks - len(places) + 0.5) / (len(places) + 0.5))
        norms = K1 * ((1.0 - B) + B * lengths / (terms / chunks))
        scores[places] += idf * (tf * (K1 + 1.0)) / (tf + norms)
    return np.where(scores > 0, np.round(scores, 6), np.nan)


def decode(blocks: Iterable[tuple[int, bytes]]) -> Postings:
    """A term's postings, 8 bytes each: place (32 bits), tf (8) and length (24). A negative count: of deleted chunks."""
    contents: tuple[list[bytes], list[bytes]] = ([], [])
    for count, content in blocks:
        contents[count < 0].append(content)
    values, gone = (np.frombuffer(b"".join(content), dtype=">i8").astype(np.int64) for content in contents)
    if len(gone):
        values = values[~np.isin(values >> 32, gone >> 32)]
    return Postings(values >> 32, (values >> 24) & 0xFF, values & 0xFFFFFF)


def term_frequencies(content: str, analyzer: Analyzer) -> dict[str, int]:
    """tf by term in the order of first occurrence, within the limits; their sum is the chunk's length."""
    kept: dict[str, int] = {}
    room = _MAX_BYTES
    for term, count in Counter(analyzer.terms(content)).items():
        size = len(term.encode())
        if size > _MAX_TERM_BYTES:
            continue
        tf = min(count, _MAX_TF)
        room -= size + 3 + 2 * tf  # as tsvector lays it out: alignment, number of positions, positions
        if room < 0:
            break
        kept[term] = tf
    return kept


def query_terms(query: str, analyzer: Analyzer) -> list[str]:
    """The query's distinct terms in the order of first occurrence."""
    found = dict.fromkeys(analyzer.terms(check_string(query, "query")))
    return [term for term in found if len(term.encode()) <= _MAX_TERM_BYTES][:MAX_QUERY_TERMS]


def tsvector_literal(frequencies: dict[str, int]) -> str:
    """What ``::tsvector`` reads, e.g. ``'tea':1,2 'time':1``."""
    # Terms consist of word characters, + and #, so none needs an escape.
    return " ".join([f"'{term}':{_POSITIONS[tf]}" for term, tf in frequencies.items()])


_POSITIONS = [",".join(map(str, range(1, tf + 1))) for tf in range(_MAX_TF + 1)]
