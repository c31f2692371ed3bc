"""Judging in the terminal, one key a grade."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from textwrap import fill

from experiments.label.desk import LEGEND, Desk, Task

KEYS = "0-3 grade, s skip, u undo, q quit"
WIDTH = 100
SHOWN = 2000
"""Characters of a document that are shown."""


def judge_in_terminal(desk: Desk, most: int | None) -> None:
    """Ask for grades until the person quits, ``most`` labels were given, or nothing is left."""
    given = 0
    sys.stdout.write("\n".join([*LEGEND, ""]))
    with closing(_keys()) as keys:
        while (task := desk.next()) is not None and (most is None or given < most):
            _show(desk, task)
            key = next(keys, "q")
            if key == "q":
                break
            given += _act(desk, task, key)
    if task is None:
        sys.stdout.write("Everything that could decide is judged.\n")


def _act(desk: Desk, task: Task, key: str) -> int:
    """Do what a key says, and return by how many the labels have grown."""
    if key in "0123":
        desk.grade(task, int(key))
        return 1
    if key == "u":
        return -1 if desk.undo() else 0
    if key == "s":
        desk.skip(task)
    else:
        sys.stdout.write(f"{key!r} is no key here: {KEYS}\n")
    return 0


def _show(desk: Desk, task: Task) -> None:
    text = _line(task.text)
    cut = "" if len(text) <= SHOWN else " [...]"
    lines = [
        "-" * WIDTH,
        desk.verdict().text,
        f"Query {_line(task.query_id)}: {fill(_line(task.query), WIDTH)}",
        f"Document {_line(task.doc_id)}: {_line(task.title)}",
        fill(text[:SHOWN] + cut, WIDTH),
        f"[{KEYS}] ",
    ]
    sys.stdout.write("\n".join(lines))
    sys.stdout.flush()


def _line(text: str) -> str:
    """A text on one line, without characters that would steer the terminal."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def _keys() -> Generator[str, None, None]:
    """The keys that are pressed, those of a terminal without Enter; ends with the input."""
    with _unbuffered():
        while key := sys.stdin.read(1):
            if sys.stdin.isatty() or not key.isspace():
                sys.stdout.write(f"{key}\n")
                yield key.lower()


@contextmanager
def _unbuffered() -> Iterator[None]:
    if not sys.stdin.isatty():
        yield
        return
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
