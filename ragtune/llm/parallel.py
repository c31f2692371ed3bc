"""Several calls at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ragtune.core.errors import LLMError

I = TypeVar("I")  # noqa: E741
R = TypeVar("R")


def map_all(call: Callable[[I], R], inputs: Sequence[I], at_once: int) -> list[R | LLMError]:
    """``call`` of each, ``at_once`` at a time; in order, a failed one as the error that it raised."""

    def attempt(given: I) -> R | LLMError:
        try:
            return call(given)
        except LLMError as error:
            return error

    if len(inputs) < 2 or at_once == 1:
        return [attempt(given) for given in inputs]
    with ThreadPoolExecutor(min(at_once, len(inputs))) as threads:
        return list(threads.map(attempt, inputs))
