"""Who waits for an answer of the rerank API: since when, and whether still."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ragtune.core.errors import InputError, NotAskedError
from ragtune.core.interfaces import BaseReranker
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.context import RAGtuneContext
from ragtune.rerankers._wrapped import WrappedReranker

_log = logging.getLogger(__name__)
_CURRENT: ContextVar[Client | None] = ContextVar("client", default=None)


class Client:
    """The client of one request. The thread that works on the request finds it by :func:`current`."""

    def __init__(self) -> None:
        self._since = time.monotonic()
        self._gone = threading.Event()

    @property
    def waited_ms(self) -> float:
        """Milliseconds since the request arrived."""
        return 1000.0 * (time.monotonic() - self._since)

    @property
    def is_gone(self) -> bool:
        """Whether nobody waits for the answer any more."""
        return self._gone.is_set()

    def leave(self) -> None:
        """Nobody waits for the answer from now on: the connection is closed, or the time limit is over."""
        self._gone.set()

    async def watch(self, receive: Callable[[], Awaitable[Any]]) -> None:
        """Leave once the ASGI server reports that the connection is closed."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self.leave()

    @contextmanager
    def served(self) -> Iterator[None]:
        """This thread works for the client while the block lasts."""
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)


def current() -> Client | None:
    """The client that this thread works for; None where it works for none."""
    return _CURRENT.get()


class ServedReranker(WrappedReranker):
    """Another reranker, as the requests of a server ask it: only while their clients wait and the server runs.

    A request that nobody waits for ends like one whose reranker is busy, so its ranking has what was spent so far.
    Whatever is wrong with the reranker is no fault of a request: the server's log has it, and the batch fails.

    Args:
        inner: the reranker.
    """

    def __init__(self, inner: BaseReranker) -> None:
        super().__init__(inner)
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
        client = current()
        if client is not None and client.is_gone:
            raise NotAskedError("nobody waits for the answer any more")
        try:
            return self.inner.rerank(items, context, strategy)
        except InputError as error:
            _log.error("the reranker cannot be used: %s", error)
        raise RuntimeError("the reranker cannot be used; the server's log says why")
