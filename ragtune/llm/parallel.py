"""Several calls at once, by threads that nobody has to wait for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import TypeVar

from ragtune.core.errors import LLMError

I = TypeVar("I")  # noqa: E741
R = TypeVar("R")


def map_all(call: Callable[[I], R], inputs: Sequence[I], at_once: int) -> list[R | LLMError]:
    """Run ``call`` on every input, ``at_once`` at a time; results keep the order, a failure is its exception.

    An interrupt ends the wait at once, and the process when it likes: unlike a ``ThreadPoolExecutor``'s, these threads
    are daemons, so that a server that hangs keeps nobody. What was not begun by then is not begun any more.
    """

    def attempt(given: I) -> R | LLMError:
        try:
            return call(given)
        except LLMError as error:
            return error

    if len(inputs) < 2 or at_once == 1:
        return [attempt(given) for given in inputs]
    return _in_threads(attempt, inputs, at_once)


def _in_threads(work: Callable[[I], R], inputs: Sequence[I], count: int) -> list[R]:
    """The results in order, or the first error in that order once all have ended."""
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
