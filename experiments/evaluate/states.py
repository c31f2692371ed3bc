"""Rankings of one query's documents."""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragtune.core.arrays import IntArray

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


def together(rankings: Sequence[Sequence[int] | Positions], n: int) -> Orders:
    """Rankings of n documents in as few bytes as hold them, in one array where they are of one length."""
    return small(rankings, n) if len(set(map(len, rankings))) == 1 else [small(ranking, n) for ranking in rankings]


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


def after_each(depths: Sequence[int] | IntArray, sent: Positions, best: Positions, rest: Positions) -> Positions:
    """Rankings of n documents after each number of documents, without a sort: those sent so far come first.

    Args:
        depths: k numbers of documents; where m is less than n, none is larger than m.
        sent: shape (..., m), positions in the order in which the documents are sent.
        best: shape (..., m), the same positions, best first.
        rest: shape (..., n), all positions in the order in which those stand behind that are not sent yet.

    Returns:
        Positions, shape (..., k, n), in as few bytes as hold them.
    """
    (*many, n), m, k = rest.shape, sent.shape[-1], len(depths)
    q = math.prod(many)
    both = np.concatenate([best, rest], axis=-1).reshape(q, m + n)
    row = np.arange(q)[:, None]
    place = np.full((q, n), n)
    place[row, sent.reshape(q, m)] = np.arange(m)
    stands = place[row, both][:, None] < np.array(depths)[:, None]
    stands[..., m:] ^= True  # the second time that a document comes, it is one of the rest
    rankings: Positions = small(both, n)[:, None].repeat(k, axis=1)[stands]
    return rankings.reshape(*many, k, n)


class States(NamedTuple):
    """Some rankings of the candidates of one query, such as the states of its anytime history.

    Attributes:
        query_id: the judged query.
        doc_ids: the n candidates.
        orders: for each of k rankings, positions in ``doc_ids``, best first; a ranking may lack some of them.
    """

    query_id: str
    doc_ids: Sequence[str]
    orders: Orders

    @classmethod
    def of(cls, query_id: str, ranking: Sequence[str]) -> States:
        """A single ranking, best first."""
        return cls(query_id, ranking, np.arange(len(ranking))[None])

    def at(self, steps: Sequence[int]) -> States:
        """The rankings at some positions among these."""
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
        """The rankings as document ids."""
        return [[self.doc_ids[i] for i in order] for order in self.orders]
