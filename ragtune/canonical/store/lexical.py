"""The lexical score that every store computes: BM25 over the term frequencies of a ``tsvector``.

BM25 (Robertson and Zaragoza 2009; idf as in Lucene and bm25s' default) with k1 = 1.5 and b = 0.75::

    sum over the query's distinct terms of  idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / average length))
    idf = ln(1 + (N - df + 0.5) / (df + 0.5))

N, df and the average length are those of the whole collection, whatever the filters. The text analysis is one of
:mod:`ragtune.canonical.analyzers`, not a text search configuration of the server, so that all stores agree on what a
term is. In the ``tsvector`` a lexeme has its occurrences counted 1, 2, ... as positions, so that their number, and
``ts_rank_cd`` of one term with weights of 1 and no normalization, is exactly tf.

PostgreSQL's limits hold for every store: a term of more than 255 bytes is no term, tf counts up to 255, and of a chunk
with very many distinct terms only those that come first are indexed, about a million bytes of them.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ragtune.canonical.analyzers import Analyzer
from ragtune.canonical.normalization import check_string

F = TypeVar("F", bound=np.floating[Any])

K1 = 1.5
B = 0.75
MAX_QUERY_TERMS = 128
"""Distinct terms of a query that count; those that come first."""

_MAX_TERM_BYTES = 255
_MAX_TF = 255  # MAXNUMPOS of tsvector is 256, exclusive
_SHORT = _MAX_TERM_BYTES // 4  # characters, of up to four bytes each
_SMALL = 50_000  # characters, whose terms and positions are well below the following
_MAX_BYTES = 1_000_000  # a tsvector holds at most 2**20 - 1 bytes of lexemes and positions


def idf(chunks: int, df: int) -> float:
    """Weight of a term that ``df`` of the collection's chunks hold."""
    return math.log(1.0 + (chunks - df + 0.5) / (df + 0.5))


def norms(lengths: NDArray[F], average: float) -> NDArray[F]:
    """What tf is weighed against in chunks of these lengths, shape (n,), in their precision."""
    return np.asarray(K1 * ((1.0 - B) + B * lengths / average), dtype=lengths.dtype)


def bm25(weight: float, tf: Any, norm: NDArray[F]) -> NDArray[F]:
    """A term's part of the scores, shape (n,); every store takes these steps, so that all get the same bits."""
    return np.asarray(weight * (tf * (K1 + 1.0)) / (tf + norm))


def term_frequencies(content: str, analyzer: Analyzer) -> dict[str, int]:
    """tf by term in the order of first occurrence, within the limits; their sum is the chunk's length."""
    counts = Counter(analyzer.terms(content))
    if (
        len(content) <= _SMALL
        and max(map(len, counts), default=0) <= _SHORT
        and max(counts.values(), default=0) <= _MAX_TF
    ):
        return dict(counts)  # what almost every chunk is like, and far from any limit
    kept: dict[str, int] = {}
    room = _MAX_BYTES
    for term, count in counts.items():
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
    """The query's distinct terms in the order of first occurrence.

    Raises:
        InputError: if it is no storable text.
    """
    found = dict.fromkeys(analyzer.terms(check_string(query, "query")))
    return [term for term in found if len(term.encode()) <= _MAX_TERM_BYTES][:MAX_QUERY_TERMS]


def tsvector_literal(frequencies: dict[str, int]) -> str:
    """What ``::tsvector`` reads, e.g. ``'tea':1,2 'time':1``."""
    # Terms are of word characters, + and #, so none needs the escapes of quote().
    return " ".join([f"'{term}':{_POSITIONS[tf]}" for term, tf in frequencies.items()])


def quote(term: str) -> str:
    """A lexeme as ``tsvector`` and ``tsquery`` literals write it."""
    return "'" + term.replace("\\", "\\\\").replace("'", "''") + "'"


_POSITIONS = [",".join(map(str, range(1, tf + 1))) for tf in range(_MAX_TF + 1)]
