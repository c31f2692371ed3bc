"""SIGTERM ends a command as the end of its work does, so that all it holds is let go."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class _TerminatedError(BaseException):
    """Somebody sent SIGTERM."""


@contextmanager
def stop_on_sigterm() -> Iterator[None]:
    """Leave the block where it stands when SIGTERM comes; what comes later, while it is left, is ignored."""

    def stop(number: int, _: FrameType | None) -> None:
        signal.signal(number, signal.SIG_IGN)
        raise _TerminatedError

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except _TerminatedError:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)


def exit_on_signals(close: Callable[[], None]) -> None:
    """From now on SIGTERM and Ctrl-C end the process at once, after ``close()``.

    For a program that reads stdin: the thread that does cannot be interrupted, and would be waited for.
    """

    def leave(_: int, __: FrameType | None) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        try:
            close()
        finally:
            os._exit(0)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, leave)
