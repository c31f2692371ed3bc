"""Products of the text vectors of a pool."""

from __future__ import annotations

from typing import Any

import numpy as np

from ragtune.core.arrays import FloatArray, IntArray, dense

_AT_ONCE = 2**17
"""Cosines of a pool that are made in one product: of sparse rows, a product for each batch takes longer than all."""


def compact(rows: Any) -> tuple[Any, IntArray]:
    """Return the rows without empty columns, and the columns that are left, ascending.

    Hashed terms have a million columns. A dense vector over all of them takes 8 MB, one over a request's own
    terms a few KB. The values and their order stay the same, so sums over a row are the same bit by bit.

    Args:
        rows: text vectors, shape (n, columns), ``scipy.sparse.csr_matrix``.
    """
    from scipy.sparse import csr_matrix

    if rows.shape[1] <= rows.nnz:
        return rows, np.arange(rows.shape[1])
    columns, places = np.unique(rows.indices, return_inverse=True)
    return csr_matrix((rows.data, places, rows.indptr), shape=(rows.shape[0], len(columns))), columns


def cosines_at_once(rows: Any) -> FloatArray | None:
    """The cosines of all rows with all, shape (n, n), where that is one product of sparse rows and little; else None.

    To the bit those that a product of some of the rows has: each is a sum by itself.
    """
    if not hasattr(rows, "toarray") or rows.shape[0] ** 2 > _AT_ONCE:
        return None
    return dense(rows @ rows.T)
