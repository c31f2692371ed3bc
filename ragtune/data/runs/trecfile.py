"""Runs of TREC as their tools write them, read in columns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from ragtune.data.files.arrowfile import read_trec
from ragtune.data.files.textfile import opened
from ragtune.data.runs.run import Entries

_SIZE = 1 << 20
"""Bytes read at once, so that memory does not grow with the file."""

_HEXADECIMAL = re.compile(rb"^(?:\S+\s){3}[-+]?0[xX]", re.MULTILINE)
"""A rank that Arrow takes for a number, and nobody else does."""


def read_plain_trec(file: Path) -> Iterator[Entries]:
    """Lines of ``query_id Q0 doc_id rank score tag``, if they are nothing else: six fields of ASCII, one blank between.

    It is some nine times as fast as reading line by line, and knows no line numbers: who has to name what is wrong
    reads the file again.

    Args:
        file: gzipped or not.

    Raises:
        ValueError: if there is anything else in the file, which may still be a run.
        EOFError, OSError, zlib.error: if it is gzipped and damaged.
    """
    with ExitStack() as stack:
        lines = opened(file, stack)
        while block := lines.read(_SIZE) + lines.readline():
            block = block.replace(b"\t", b" ")
            _require_plain(block)
            yield from read_trec(block)


def _require_plain(block: bytes) -> None:
    """Every sixth blank ends a line, and no other does; none follows another, so that each ends a field."""
    content = np.frombuffer(block if block.endswith(b"\n") else block + b"\n", dtype=np.uint8)
    blanks = np.flatnonzero(content <= ord(" "))
    if not block.isascii() or len(blanks) % 6 or blanks[0] == 0 or (np.diff(blanks) == 1).any():
        raise ValueError("not six fields")
    kinds = content[blanks].reshape(-1, 6)
    if (kinds[:, 5] != ord("\n")).any() or (kinds[:, :5] != ord(" ")).any():
        raise ValueError("not six fields")
    if (b"0x" in block or b"0X" in block) and _HEXADECIMAL.search(block):
        raise ValueError("a rank that is none")
