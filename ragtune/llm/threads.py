"""Several calls at once, by threads that nobody has to wait for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import TypeVar

I = TypeVar("I")  # noqa: E741
R = TypeVar("R")


def map_in_threads(work: Callable[[I], R], inputs: Sequence[I], count: int) -> list[R]:
    """``[work(given) for given in inputs]``, ``count`` at a time.

    An interrupt ends the wait at once, and the process when it likes: unlike a ``ThreadPoolExecutor``'s, these threads
    are daemons, so that a server that hangs does not keep anyone. What was not begun by then is not begun any more.

    Raises:
        Exception: what ``work`` raised, of several the first in the order of ``inputs``, after all have ended.
    """
    waiting: SimpleQueue[int] = SimpleQueue()
    ended: SimpleQueue[int] = SimpleQueue()
    results: dict[int, R] = {}
    errors: dict[int, BaseException] = {}
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            try:
                place = waiting.get_nowait()
            except Empty:
                return
            try:
                results[place] = work(inputs[place])
            except BaseException as error:
                errors[place] = error
            ended.put(place)

    for place in range(len(inputs)):
        waiting.put(place)
    try:
        for _ in range(min(count, len(inputs))):
            threading.Thread(target=run, daemon=True).start()
        for _ in inputs:
            ended.get()
    finally:
        stop.set()
    if errors:
        raise errors[min(errors)]
    return [results[place] for place in range(len(inputs))]
