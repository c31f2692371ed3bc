"""Rankings of one query's documents, and the usual measures over many of them at once."""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragtune.core.arrays import FloatArray

Positions = NDArray[np.integer[Any]]
"""Positions in a list of documents."""

Orders = Sequence[Sequence[int] | Positions] | Positions
"""Rankings, each as positions in a list of documents, best first; one array of shape (k, n) where all have length n."""


def small(positions: ArrayLike | Orders, n: int) -> Positions:
    """Positions among n documents in as few bytes as hold them, for what stays in memory."""
    return np.array(positions, dtype=_kind_for(n))


@lru_cache(maxsize=64)
def _kind_for(n: int) -> np.dtype[np.integer[Any]]:
    return np.min_scalar_type(max(n - 1, 0))


def together(rankings: Orders, n: int) -> Orders:
    """Rankings of n documents in as few bytes as hold them, in one array where they are of one length."""
    is_one = isinstance(rankings, np.ndarray) or len(set(map(len, rankings))) == 1
    return small(rankings, n) if is_one else [small(ranking, n) for ranking in rankings]


def packed(rankings: Orders, n: int) -> dict[str, Any]:
    """Rankings of n documents as plain data, of which JSON takes a byte and a half a position, see :func:`unpacked`."""
    if isinstance(rankings, np.ndarray):
        lengths, positions = [rankings.shape[1]] * len(rankings), small(rankings, n).tobytes()
    else:
        lengths, positions = list(map(len, rankings)), b"".join([small(some, n).tobytes() for some in rankings])
    return {"lengths": lengths, "positions": b64encode(positions).decode()}


def unpacked(plain: Mapping[str, Any], n: int) -> Orders:
    """Rankings of n documents that were :func:`packed`."""
    lengths, positions = plain["lengths"], np.frombuffer(b64decode(plain["positions"]), dtype=_kind_for(n))
    if lengths and lengths.count(lengths[0]) == len(lengths):
        return positions.reshape(len(lengths), -1)
    return together(np.split(positions, np.cumsum(lengths[:-1])), n)


class States(NamedTuple):
    """Some rankings of the candidates of one query, each of which may lack some of them."""

    query_id: str
    doc_ids: Sequence[str]
    orders: Orders

    @classmethod
    def of(cls, query_id: str, ranking: Sequence[str]) -> States:
        """A single ranking, best first."""
        return cls(query_id, ranking, np.arange(len(ranking))[None])

    def at(self, steps: Sequence[int]) -> States:
        chosen = self.orders[list(steps)] if isinstance(self.orders, np.ndarray) else [self.orders[i] for i in steps]
        return self._replace(orders=chosen)

    def rows(self) -> list[Positions]:
        """The positions as arrays of shape (rows, length), those of successive rankings of one length together."""
        if isinstance(self.orders, np.ndarray):
            return [self.orders]
        rows: list[list[Sequence[int] | Positions]] = []
        for order in self.orders:
            if rows and len(rows[-1][0]) == len(order):
                rows[-1].append(order)
            else:
                rows.append([order])
        return [np.array(some, dtype=np.intp).reshape(len(some), -1) for some in rows]

    def rankings(self) -> list[list[str]]:
        return [[self.doc_ids[i] for i in order] for order in self.orders]


_KEPT = 10_000
"""Queries whose grades are kept: a run asks for them four times, and the jobs of a sweep share them."""


class RankMeasures:
    """nDCG, RR, AP, P and R of many rankings in one pass, to the last bit those of trec_eval."""

    def __init__(self, measures: Sequence[Any], qrels: Mapping[str, Mapping[str, int]]) -> None:
        self._asked = [(_FORMULAS[m.NAME], m.params.get("cutoff"), m.params.get("rel", 1)) for m in measures]
        self._qrels = qrels
        self._ideal: dict[str, FloatArray] = {}
        self._known: dict[str, tuple[Sequence[str], FloatArray]] = {}

    @staticmethod
    def covers(measure: Any) -> bool:
        """Whether it is one of these measures, with no option but a cutoff and a relevance level."""
        return measure.NAME in _FORMULAS and not measure.params.keys() - {"cutoff", "rel"}

    def of(self, states: Sequence[States], first: int | None = None) -> FloatArray:
        """Values of shape (number of rankings, m)."""
        graded, asked = self._graded(states), self._asked[:first]
        values = np.zeros((len(graded.found), len(asked)))
        for column, (formula, cutoff, rel) in enumerate(asked):
            values[:, column] = formula(graded, cutoff, rel)
        return values

    def _graded(self, states: Sequence[States]) -> _Graded:
        queries = list(dict.fromkeys(each.query_id for each in states))
        row = {query: i for i, query in enumerate(queries)}
        return _Graded(
            found=_padded([rows for each in states for rows in self._grades(each)]),
            ideal=_padded([self._best(query) for query in queries]),
            query=np.repeat([row[each.query_id] for each in states], [len(each.orders) for each in states]),
        )

    def _best(self, query: str) -> FloatArray:
        """Grades down the best possible ranking, shape (1, length); none is below 0."""
        best = self._ideal.get(query)
        if best is None:
            grades = np.array([sorted(self._qrels[query].values(), reverse=True)], dtype=float)
            best = np.maximum(grades, 0.0)
            if len(self._ideal) < _KEPT:
                self._ideal[query] = best
        return best

    def _grades(self, states: States) -> list[FloatArray]:
        """Grades down the ranks, in arrays of shape (rankings, length); none is below 0."""
        known = self._known.get(states.query_id)
        if known is None or known[0] != states.doc_ids:
            grade_of = self._qrels[states.query_id].get
            grades = np.fromiter(map(grade_of, states.doc_ids, repeat(0)), float, len(states.doc_ids))
            known = states.doc_ids, np.maximum(grades, 0.0)
            if len(self._known) < _KEPT:
                self._known[states.query_id] = known
        return [known[1].take(rows) for rows in states.rows()]


class _Graded(NamedTuple):
    """Grades down the ranks of t rankings, and down the best possible ranking of each of their queries; 0 beyond."""

    found: FloatArray  # shape (t, n)
    ideal: FloatArray  # shape (q, j)
    query: NDArray[np.intp]  # shape (t,), the row of each ranking in ideal

    def is_relevant(self, rel: int, cutoff: int | None) -> NDArray[np.bool_]:
        return self.found[:, :cutoff] >= rel

    def relevant(self, rel: int) -> FloatArray:
        """Number of relevant documents that there are, shape (t,)."""
        found: FloatArray = (self.ideal >= rel).sum(axis=1)[self.query].astype(float)
        return found


def _padded(blocks: Sequence[FloatArray]) -> FloatArray:
    grades = np.zeros((sum(map(len, blocks)), max((block.shape[1] for block in blocks), default=0)))
    start = 0
    for block in blocks:
        grades[start : start + len(block), : block.shape[1]] = block
        start += len(block)
    return grades


def _ndcg(graded: _Graded, cutoff: int | None, rel: int) -> FloatArray:
    return _share(_dcg(graded.found, cutoff), _dcg(graded.ideal, cutoff)[graded.query])


def _dcg(grades: FloatArray, cutoff: int | None) -> FloatArray:
    first = grades[:, :cutoff]
    if not first.shape[1]:
        return np.zeros(len(first))
    return np.cumsum(first / _discounts(first.shape[1]), axis=1)[:, -1]  # from the left; NumPy's sum adds in pairs


@lru_cache(maxsize=8)
def _discounts(n: int) -> FloatArray:
    # Of math, not of NumPy, whose logarithm may differ from the C library's in the last bit.
    return np.array([math.log2(rank + 2) for rank in range(n)])


def _average_precision(graded: _Graded, cutoff: int | None, rel: int) -> FloatArray:
    hits = graded.is_relevant(rel, cutoff)
    ranking, rank = hits.nonzero()
    found = np.bincount(ranking, minlength=len(hits))
    before = np.repeat(np.cumsum(found) - found, found)  # hits of the rankings before
    precision = (np.arange(1, len(ranking) + 1) - before) / (rank + 1)
    total = np.bincount(ranking, precision, len(hits)).astype(float)  # added rank by rank; its stub says integers
    return _share(total, graded.relevant(rel))


def _reciprocal_rank(graded: _Graded, cutoff: int | None, rel: int) -> FloatArray:
    hits = graded.is_relevant(rel, cutoff)
    first = hits.argmax(axis=1) + 1.0 if hits.shape[1] else np.ones(len(hits))
    return np.where(hits.any(axis=1), 1.0 / first, 0.0)


def _precision(graded: _Graded, cutoff: int | None, rel: int) -> FloatArray:
    share: FloatArray = graded.is_relevant(rel, cutoff).sum(axis=1) / (cutoff or 1)
    return share


def _recall(graded: _Graded, cutoff: int | None, rel: int) -> FloatArray:
    return _share(graded.is_relevant(rel, cutoff).sum(axis=1), graded.relevant(rel))


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
