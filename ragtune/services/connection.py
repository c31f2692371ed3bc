"""HTTP connections of ``ragtune serve``: the head of a request must come in time, and be of a sensible size."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_HEAD_BYTES = 64 * 2**10


class PromptProtocol(HttpToolsProtocol):
    """Uvicorn's protocol, which by itself waits for a request's head as long as its sender likes.

    Attributes:
        head_s: seconds from a connection's first moment, or a further request's first byte, to the end of its headers.
    """

    head_s: float
    _deadline: asyncio.TimerHandle | None = None
    _size = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        served: Any = self.cycle
        if self._deadline is None and (served is None or served.response_complete):
            self._await_head()
        super().data_received(data)
        if self.cycle is not served:
            self._stop_waiting()
        elif self._deadline is not None:
            self._size += len(data)
            if self._size > _HEAD_BYTES:
                self.transport.close()

    def _await_head(self) -> None:
        self._deadline = self.loop.call_later(self.head_s, self.transport.close)

    def _stop_waiting(self) -> None:
        self._size = 0
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def make_protocol(head_s: float) -> type[HttpToolsProtocol]:
    """The protocol with a limit of ``head_s`` seconds."""
    return type("Protocol", (PromptProtocol,), {"head_s": head_s})
