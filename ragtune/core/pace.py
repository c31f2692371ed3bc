"""How long a batch of a live reranker will take, learned from those that it has scored."""

from __future__ import annotations

from collections import deque

import numpy as np

_KEPT = 64
"""Batches that are remembered: a server's speed changes, so what was long ago does not count."""


class Pace:
    """Milliseconds of a batch as a line in its size, plus the worst underestimate so far.

    The line is the least-squares fit of (documents, milliseconds) with neither intercept nor slope below 0; batches of
    one size only say how long a document takes. The margin makes the forecast err on the long side: no batch that was
    seen would have been underestimated.
    """

    def __init__(self) -> None:
        self._seen: deque[tuple[int, float]] = deque(maxlen=_KEPT)

    def observe(self, docs: int, ms: float) -> None:
        """A batch of ``docs`` documents took ``ms``."""
        self._seen.append((docs, ms))

    def expect(self, docs: int) -> float | None:
        """Milliseconds that a batch of ``docs`` documents should take at most; None while nothing has been seen."""
        if not self._seen:
            return None
        sizes, times = np.array(self._seen, dtype=float).T
        base, each = _line(sizes, times)
        margin = float(np.max(times - (base + each * sizes), initial=0.0))
        return base + each * docs + margin


def _line(
    sizes: np.ndarray[tuple[int, ...], np.dtype[np.float64]], times: np.ndarray[tuple[int, ...], np.dtype[np.float64]]
) -> tuple[float, float]:
    spread = sizes - sizes.mean()
    if not spread.any():
        return 0.0, float(times.mean() / sizes.mean())
    each = max(0.0, float(spread @ times / (spread @ spread)))
    base = float(times.mean() - each * sizes.mean())
    if base >= 0.0:
        return base, each
    return 0.0, float(sizes @ times / (sizes @ sizes))
