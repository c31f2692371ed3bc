"""How far work is, on stderr: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from experiments.config.progress import Progress

PATIENCE_S = 2.0
"""Seconds after which work shows a progress bar."""

LINE_S = 30.0
"""Seconds between two lines of progress where there is no terminal."""


@contextmanager
def progress_bar(label: str, *, enabled: bool) -> Iterator[Progress]:
    """Show a progress bar on stderr, once the work has taken :data:`PATIENCE_S`; a line now and then off a terminal.

    Args:
        label: text that stands before the bar.
        enabled: show it at all.

    Yields:
        What the work calls with the items done and the items in all.
    """
    from rich.console import Console

    if not enabled or not Console(file=sys.stderr).is_terminal:
        yield _lines(label) if enabled else lambda done, total: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    speed = TextColumn("{task.fields[speed]}")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), speed, TimeRemainingColumn())
    bar = Bar(*columns, console=Console(file=sys.stderr), transient=True)
    task = bar.add_task(label, total=None, speed="")
    started, pace = time.perf_counter(), _Pace()
    shown = False

    def update(done: int, total: int) -> None:
        nonlocal shown
        if not shown and time.perf_counter() - started > PATIENCE_S:
            bar.start()
            shown = True
        rate = pace.at(done)
        bar.update(task, completed=done, total=total, speed=f"{rate:.3g}/s" if rate else "")

    try:
        yield update
    finally:
        if shown:
            bar.stop()


@contextmanager
def library_progress(*, enabled: bool) -> Iterator[None]:
    """Show on stderr what the library tells of work on a large collection, such as the building of an index."""
    log, handler = logging.getLogger("ragtune"), logging.StreamHandler(sys.stderr)
    # Warnings go where they always go; where nobody handles them, Python does so only while no handler is there.
    handler.addFilter(lambda record: record.levelno == logging.INFO or not logging.root.handlers)
    before = log.level
    if enabled:
        log.addHandler(handler)
        log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before)


def _lines(label: str) -> Progress:
    """Progress as lines on stderr, one every :data:`LINE_S`: what a log or a pipe can show."""
    told, pace = time.perf_counter(), _Pace()

    def update(done: int, total: int) -> None:
        nonlocal told
        rate = pace.at(done)
        if time.perf_counter() - told >= LINE_S:
            told = time.perf_counter()
            left = f", {rate:.3g} a second, {duration((total - done) / rate)} left" if rate else ""
            sys.stderr.write(f"{label}: {done} of {total}{left}\n")

    return update


class _Pace:
    """How many items a second, counted from the first report: what was done before it cost no time now."""

    def __init__(self) -> None:
        self._first: tuple[int, float] | None = None

    def at(self, done: int) -> float | None:
        """Items a second until now; None where it cannot be told yet."""
        now = time.perf_counter()
        if self._first is None:
            self._first = done, now
        items, seconds = done - self._first[0], now - self._first[1]
        return items / seconds if items > 0 and seconds > 0 else None


def duration(seconds: float) -> str:
    """A time in the unit that suits it: ``40 s``, ``12 min``, ``3.5 h``."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
