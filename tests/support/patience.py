"""How long tests wait for what should end by itself."""

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

T = TypeVar("T")

HANG_S = 900.0
"""Guards against hanging alone: more than a command takes on the slowest and busiest machine."""


def longer(first: float) -> Iterator[float]:
    """Time limits, each four times the last: for tests of what happens within one, which a busy machine need not do in
    the first ones."""
    yield from (first * 4**step for step in range(6))


def wait_until(holds: Callable[[], T]) -> T:
    """What makes it hold, once it does.

    Raises:
        TimeoutError: if it never does.
    """
    until = time.monotonic() + HANG_S
    while not (found := holds()):
        if time.monotonic() > until:
            raise TimeoutError("what was waited for did not come")
        time.sleep(0.01)
    return found
