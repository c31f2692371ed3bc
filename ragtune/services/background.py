"""Work of a server for which no client waits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass
class Background:
    """Work for which no client waits: its batches are scored while no request is under way.

    Attributes:
        waited_ms: milliseconds that its batches have waited.
    """

    waited_ms: float = 0.0

    @contextmanager
    def used(self) -> Iterator[None]:
        """Let this thread work in the background within the block."""
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)


_CURRENT: ContextVar[Background | None] = ContextVar("background", default=None)


def current_background() -> Background | None:
    """The background work of this thread; None where a client waits for it."""
    return _CURRENT.get()
