"""Stops when the top k is settled."""

from __future__ import annotations

from ragtune.core.interfaces import BaseAcquisition
from ragtune.schedulers.early_stop import EarlyStopScheduler


class SettledScheduler(EarlyStopScheduler):
    """Early stopping with more patience, for those who want most of what reranking brings and little fall after it.

    The rule is that of :class:`EarlyStopScheduler`; the lower threshold was chosen on collections (results/README.md).

    Args:
        batch_size, acquisition, diverse, k, threshold, min_docs: as there.

    Raises:
        ConfigError: on an argument out of range.
    """

    def __init__(
        self,
        batch_size: int = 2,
        acquisition: BaseAcquisition | None = None,
        diverse: bool = True,
        k: int = 10,
        threshold: float = 0.25,
        min_docs: int = 10,
    ) -> None:
        super().__init__(batch_size, acquisition, diverse, k, threshold, min_docs)
