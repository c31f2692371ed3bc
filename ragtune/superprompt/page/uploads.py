"""Documents that a person uploads to the page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from ragtune.core.errors import DatasetError
from ragtune.superprompt.memory.folders import SUFFIXES, DocumentSet, decode

FILE_MIB = 2
TOTAL_MIB = 16
FILES = 200
_MIB = 2**20


def read_uploads(files: Sequence[tuple[str, bytes]]) -> tuple[DocumentSet, list[str]]:
    """Return the usable documents among uploaded files (name and content), and one line for each refused file."""
    texts: dict[str, str] = {}
    refused: list[str] = []
    total = 0
    for name, data in files:
        try:
            if PurePath(name).suffix.lower() not in SUFFIXES:
                raise DatasetError(f"{name}: allowed are {', '.join(SUFFIXES)}")
            if name in texts:
                raise DatasetError(f"{name}: there are two files of this name: rename one")
            if len(data) > FILE_MIB * _MIB:
                raise DatasetError(f"{name}: {len(data) / _MIB:.3g} MiB, allowed are {FILE_MIB}: split the file")
            if len(texts) == FILES or total + len(data) > TOTAL_MIB * _MIB:
                allowed = f"{FILES} files and {TOTAL_MIB} MiB in all"
                raise DatasetError(f"{name}: allowed are {allowed}: put more into a folder for --corpus")
            texts[name] = decode(name, data)
            total += len(data)
        except DatasetError as error:
            refused.append(str(error))
    return DocumentSet("uploads", texts), refused
