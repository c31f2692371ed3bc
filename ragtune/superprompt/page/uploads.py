"""Documents that a person uploads to the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from ragtune.core.errors import DatasetError
from ragtune.superprompt.memory.folders import SUFFIXES, DocumentSet, decode

MIB = 2**20


@dataclass(frozen=True)
class UploadLimits:
    """Limits of uploads: bytes of a file and of all files, number of files."""

    file_bytes: int = 2 * MIB
    total_bytes: int = 16 * MIB
    files: int = 200


def read_uploads(
    files: Sequence[tuple[str, bytes]], limits: UploadLimits | None = None
) -> tuple[DocumentSet, list[str]]:
    """Return the usable documents among uploaded files (name and content), and one line for each refused file."""
    limits = limits or UploadLimits()
    texts: dict[str, str] = {}
    refused: list[str] = []
    total = 0
    for name, data in files:
        try:
            if PurePath(name).suffix.lower() not in SUFFIXES:
                raise DatasetError(f"{name}: allowed are {', '.join(SUFFIXES)}")
            if name in texts:
                raise DatasetError(f"{name}: there are two files of this name: rename one")
            if len(data) > limits.file_bytes:
                sizes = f"{len(data) / MIB:.3g} MiB, allowed are {limits.file_bytes / MIB:.3g}"
                raise DatasetError(f"{name}: {sizes}: split the file")
            if len(texts) == limits.files or total + len(data) > limits.total_bytes:
                allowed = f"{limits.files} files and {limits.total_bytes / MIB:.3g} MiB in all"
                raise DatasetError(f"{name}: allowed are {allowed}: put more into a folder for --corpus")
            texts[name] = decode(name, data)
            total += len(data)
        except DatasetError as error:
            refused.append(str(error))
    return DocumentSet("uploads", texts), refused
