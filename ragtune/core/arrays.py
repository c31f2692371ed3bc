"""Array types, all one-dimensional over the pool unless said otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]


def dense(values: Any) -> NDArray[Any]:
    """The array of a product of text vectors, which is a sparse matrix where they are; of its own type of numbers."""
    return np.asarray(values.toarray() if hasattr(values, "toarray") else values)
