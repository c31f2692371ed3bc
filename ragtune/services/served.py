"""A reranker as the requests of a server ask it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from ragtune.canonical.permit import current
from ragtune.core.errors import InputError, NotAskedError
from ragtune.core.interfaces import BaseReranker
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.context import RAGtuneContext
from ragtune.rerankers._wrapped import WrappedReranker
from ragtune.services.turns import Turns

_log = logging.getLogger(__name__)


class ServedReranker(WrappedReranker):
    """Another reranker, as the requests of a server ask it: only while their clients wait and the server runs.

    A request that nobody waits for ends like one whose reranker is busy, so its ranking has what was spent so far.
    Whatever is wrong with the reranker is no fault of a request: the server's log has it, and the batch fails.

    Args:
        inner: the reranker.
        turns: the turns of the requests, which others have while a request waits for its scores.
    """

    def __init__(self, inner: BaseReranker, turns: Turns) -> None:
        super().__init__(inner)
        self._turns = turns
        self._is_stopped = threading.Event()

    def stop(self) -> None:
        """Let no further batch through."""
        self._is_stopped.set()

    def rerank(self, items: Sequence[PoolItem], context: RAGtuneContext, strategy: str) -> dict[str, float]:
        """The scores of the inner reranker.

        Raises:
            NotAskedError: if nobody waits for them.
            RuntimeError: if the inner reranker cannot be used as it is set up.
        """
        if self._is_stopped.is_set():
            raise NotAskedError("the server is being closed")
        if current().is_withdrawn:
            raise NotAskedError("nobody waits for the answer any more")
        try:
            with self._turns.away():
                return self.inner.rerank(items, context, strategy)
        except InputError as error:
            _log.error("the reranker cannot be used: %s", error)
        raise RuntimeError("the reranker cannot be used; the server's log says why")
