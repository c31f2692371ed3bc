"""Worker processes end when their driver is gone: kill -9 of a driver leaves nobody who would end them."""

from __future__ import annotations

import os
import time
from functools import lru_cache
from threading import Thread

_PERIOD_S = 0.5


@lru_cache(maxsize=1)
def end_with(driver: int) -> None:
    """End this process soon after its parent ``driver`` has died; a second call changes nothing.

    Does nothing in the driver itself, where one job is done without a worker, and on systems where a process keeps its
    parent's number.

    Args:
        driver: process id of the driver, taken there.
    """
    if os.getpid() != driver:
        Thread(target=_watch, args=(driver,), daemon=True, name="parent watch").start()


def _watch(driver: int) -> None:
    while os.getppid() == driver:
        time.sleep(_PERIOD_S)
    os._exit(1)
