"""The usual measures over many rankings at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

_BLOCK = 2048
"""Rankings measured at once, so that memory does not grow with their number."""


class RankMeasures:
    """nDCG, RR, AP, P and R of many rankings in one pass.

    Sums run down the ranks as in trec_eval (Buckley and Voorhees, github.com/usnistgov/trec_eval), so that the values
    are its own to the last bit.

    Args:
        measures: measures of ir-measures, m of them, each of which :meth:`covers`.
        qrels: graded judgments by query.
    """

    def __init__(self, measures: Sequence[Any], qrels: Mapping[str, Mapping[str, int]]) -> None:
        self._asked = [(_FORMULAS[m.NAME], m.params.get("cutoff"), m.params.get("rel", 1)) for m in measures]
        self._qrels = qrels

    @staticmethod
    def covers(measure: Any) -> bool:
        """Whether it is one of these measures, with no option but a cutoff and a relevance level."""
        return measure.NAME in _FORMULAS and not measure.params.keys() - {"cutoff", "rel"}

    def of(self, rankings: Sequence[Sequence[str]], queries: Sequence[str]) -> FloatArray:
        """Values of shape (len(rankings), m).

        Args:
            rankings: document ids, best first.
            queries: the judged query of each ranking.
        """
        values = np.zeros((len(rankings), len(self._asked)))
        for start in range(0, len(rankings), _BLOCK):
            block = slice(start, start + _BLOCK)
            graded = self._graded(rankings[block], queries[block])
            for column, (formula, cutoff, rel) in enumerate(self._asked):
                values[block, column] = formula(graded, cutoff, rel)
        return values

    def _graded(self, rankings: Sequence[Sequence[str]], queries: Sequence[str]) -> _Graded:
        judged = [self._qrels[query].get for query in queries]
        found = (map(grade_of, ranking, repeat(0)) for grade_of, ranking in zip(judged, rankings, strict=True))
        row = {query: i for i, query in enumerate(dict.fromkeys(queries))}
        ideal = [sorted(self._qrels[query].values(), reverse=True) for query in row]
        return _Graded(
            found=_padded(found, list(map(len, rankings))),
            ideal=_padded(ideal, list(map(len, ideal))),
            query=np.array([row[query] for query in queries], dtype=np.intp),
        )


class _Graded(NamedTuple):
    """Grades down the ranks of t rankings, and down the best possible ranking of each of their queries; 0 beyond.

    Attributes:
        found: shape (t, n).
        ideal: shape (q, j).
        query: shape (t,), the row of ``ideal`` of each ranking.
    """

    found: FloatArray
    ideal: FloatArray
    query: NDArray[np.intp]

    def is_relevant(self, rel: int) -> NDArray[np.bool_]:
        """Which documents found are relevant."""
        return self.found >= rel

    def relevant(self, rel: int) -> FloatArray:
        """Number of relevant documents that there are, shape (t,)."""
        found: FloatArray = (self.ideal >= rel).sum(axis=1)[self.query].astype(float)
        return found


def _padded(rows: Iterable[Iterable[int]], lengths: Sequence[int]) -> FloatArray:
    grades = np.zeros((len(lengths), max(lengths, default=0)))
    grades[np.arange(grades.shape[1]) < np.array(lengths, dtype=int)[:, None]] = np.fromiter(
        chain.from_iterable(rows), float, sum(lengths)
    )
    return grades.clip(min=0.0)


def _ndcg(graded: _Graded, cutoff: int | None, rel: int) -> FloatArray:
    return _share(_dcg(graded.found, cutoff), _dcg(graded.ideal, cutoff)[graded.query])


def _dcg(grades: FloatArray, cutoff: int | None) -> FloatArray:
    # Of math, not of NumPy, whose logarithm may differ from the C library's in the last bit.
    discounts = np.array([math.log2(rank + 2) for rank in range(grades.shape[1])])
    return _total((grades / discounts)[:, :cutoff])


def _average_precision(graded: _Graded, cutoff: int | None, rel: int) -> FloatArray:
    hits = graded.is_relevant(rel)[:, :cutoff]
    precision = np.cumsum(hits, axis=1) / np.arange(1, hits.shape[1] + 1)
    return _share(_total(np.where(hits, precision, 0.0)), graded.relevant(rel))


def _reciprocal_rank(graded: _Graded, cutoff: int | None, rel: int) -> FloatArray:
    hits = graded.is_relevant(rel)[:, :cutoff]
    first = hits.argmax(axis=1) + 1.0 if hits.shape[1] else np.ones(len(hits))
    return np.where(hits.any(axis=1), 1.0 / first, 0.0)


def _precision(graded: _Graded, cutoff: int | None, rel: int) -> FloatArray:
    share: FloatArray = graded.is_relevant(rel)[:, :cutoff].sum(axis=1) / (cutoff or 1)
    return share


def _recall(graded: _Graded, cutoff: int | None, rel: int) -> FloatArray:
    return _share(graded.is_relevant(rel)[:, :cutoff].sum(axis=1), graded.relevant(rel))


def _total(terms: FloatArray) -> FloatArray:
    """Sums of the rows, term by term from the left; NumPy's own sum adds in pairs."""
    return np.cumsum(terms, axis=1)[:, -1] if terms.shape[1] else np.zeros(len(terms))


def _share(part: FloatArray, whole: FloatArray) -> FloatArray:
    return np.divide(part, whole, out=np.zeros(len(part)), where=whole > 0)


_FORMULAS: Mapping[str, Callable[[_Graded, int | None, int], FloatArray]] = {
    "nDCG": _ndcg,
    "AP": _average_precision,
    "RR": _reciprocal_rank,
    "P": _precision,
    "R": _recall,
}
"""By ir-measures' names."""
