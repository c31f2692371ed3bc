"""How long a batch of a live reranker will take, learned from those that it has scored."""

from __future__ import annotations

from collections import deque

import numpy as np

_COVERED = 0.9
"""Share of the batches seen that the margin covers."""

_KEPT = 64
"""Batches that are remembered: a server's speed changes, so what was long ago does not count."""


class Pace:
    """Milliseconds of a batch as a line in its size, plus a margin.

    The line is the least-squares fit of (documents, milliseconds) with neither intercept nor slope below 0; batches of
    one size only say how long a document takes. With the margin, nine of ten batches that were seen would not have been
    underestimated; the slowest ones are left out, since a single hiccup must not forbid whatever comes later.
    """

    def __init__(self) -> None:
        self._seen: deque[tuple[int, float]] = deque(maxlen=_KEPT)

    def __len__(self) -> int:
        return len(self._seen)

    def observe(self, docs: int, ms: float) -> None:
        """A batch of ``docs`` documents took ``ms``."""
        self._seen.append((docs, ms))

    def forget_slowest(self) -> None:
        """Leave the slowest batch for its size out: it has let nothing start, so nothing could correct it."""
        if self._seen:
            self._seen.remove(max(self._seen, key=lambda seen: seen[1] / seen[0]))

    def expect(self, docs: int) -> float | None:
        """Milliseconds that a batch of ``docs`` documents should take; None while nothing has been seen."""
        if not self._seen:
            return None
        sizes, times = np.array(self._seen, dtype=float).T
        base, each = _line(sizes, times)
        margin = max(0.0, float(np.quantile(times - (base + each * sizes), _COVERED)))
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
