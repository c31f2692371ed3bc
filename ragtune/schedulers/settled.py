"""Stops when the top k is settled."""

from __future__ import annotations

from typing import Unpack

from ragtune.schedulers._batches import BatchOptions
from ragtune.schedulers.early_stop import EarlyStopScheduler


class SettledScheduler(EarlyStopScheduler):
    """Early stopping with more patience: it keeps most of what reranking brings, and little of it is lost by the stop.

    The rule is that of :class:`EarlyStopScheduler`; the lower threshold was chosen on collections (results/README.md).

    Args:
        k, threshold, min_docs, batch_size, acquisition, diverse: see :class:`EarlyStopScheduler`.

    Raises:
        ConfigError: on an argument out of range.
    """

    def __init__(
        self, k: int = 10, threshold: float = 0.25, min_docs: int = 10, **batches: Unpack[BatchOptions]
    ) -> None:
        super().__init__(k, threshold, min_docs, **batches)
