"""How far work is, on stderr: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from experiments.config.progress import Progress

PATIENCE_S = 2.0

LINE_S = 30.0


@contextmanager
def progress_bar(label: str, *, enabled: bool) -> Iterator[Progress]:
    """Show a progress bar on stderr, once the work has taken :data:`PATIENCE_S`; a line now and then off a terminal."""
    from rich.console import Console

    console = Console(file=sys.stderr)
    if not enabled or not console.is_terminal:
        yield _lines(label) if enabled else lambda done, total: None
        return
    from rich.progress import MofNCompleteColumn
    from rich.progress import Progress as Bar

    bar = Bar(*Bar.get_default_columns(), MofNCompleteColumn(), console=console, transient=True)
    task = bar.add_task(label, total=None)
    started = time.perf_counter()

    def update(done: int, total: int) -> None:
        if time.perf_counter() - started > PATIENCE_S:
            bar.start()
        bar.update(task, completed=done, total=total)

    try:
        yield update
    finally:
        bar.stop()


@contextmanager
def library_progress(*, enabled: bool) -> Iterator[None]:
    """Show on stderr what the library logs of work on a large collection, such as the building of an index."""
    log, handler = logging.getLogger("ragtune"), logging.StreamHandler(sys.stderr)
    # Warnings go where they always go. Where nobody handles them, Python prints them only while no handler is there.
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
    said = time.perf_counter()

    def update(done: int, total: int) -> None:
        nonlocal said
        if (now := time.perf_counter()) - said >= LINE_S:
            said = now
            sys.stderr.write(f"{label}: {done} of {total}\n")

    return update
