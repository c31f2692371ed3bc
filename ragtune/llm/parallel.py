"""Several calls at once, by threads that do not keep the process alive."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import TypeVar

from ragtune.core.errors import LLMError

I = TypeVar("I")  # noqa: E741
R = TypeVar("R")


def map_all(call: Callable[[I], R], inputs: Sequence[I], at_once: int) -> list[R | LLMError]:
    """Run ``call`` on every input, ``at_once`` at a time; an ``LLMError`` takes the place of a result.

    The threads are daemons, unlike a ``ThreadPoolExecutor``'s: a server that hangs does not delay the end of the process.
    """
    results: dict[int, R | LLMError] = {}
    errors: dict[int, BaseException] = {}
    places, ended, stop = SimpleQueue[int](), SimpleQueue[None](), threading.Event()

    def work() -> None:
        while not stop.is_set():
            try:
                place = places.get_nowait()
            except Empty:
                return
            try:
                results[place] = call(inputs[place])
            except LLMError as error:
                results[place] = error
            except BaseException as error:
                errors[place] = error
            ended.put(None)

    for place in range(len(inputs)):
        places.put(place)
    try:
        for _ in range(min(at_once, len(inputs))):
            threading.Thread(target=work, daemon=True).start()
        for _ in inputs:
            ended.get()
    finally:
        stop.set()
    if errors:
        raise errors[min(errors)]
    return [results[place] for place in range(len(inputs))]
