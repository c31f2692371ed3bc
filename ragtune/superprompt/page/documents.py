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
    """Limits of what may be uploaded to the page.

    Attributes:
        file_bytes: size of one file.
        total_bytes: size of all files together.
        files: number of files.
    """

    file_bytes: int = 2 * MIB
    total_bytes: int = 16 * MIB
    files: int = 200


def read_uploads(
    files: Sequence[tuple[str, bytes]], limits: UploadLimits | None = None
) -> tuple[DocumentSet, list[str]]:
    """The documents among uploaded files.

    Args:
        files: name and content of each file.
        limits: limits of number and size; None takes the page's own.

    Returns:
        The documents that can be used, and one line for each file that cannot: why, and what to do.
    """
    limits = limits or UploadLimits()
    texts: dict[str, str] = {}
    refused: list[str] = []
    total = 0
    for name, data in files:
        try:
            _check_upload(name, data, len(texts), total, limits)
            if name in texts:
                raise DatasetError(f"{name}: there are two files of this name: rename one")
            texts[name] = decode(name, data)
            total += len(data)
        except DatasetError as error:
            refused.append(str(error))
    return DocumentSet("uploads", texts), refused


def _check_upload(name: str, data: bytes, files: int, total: int, limits: UploadLimits) -> None:
    if PurePath(name).suffix.lower() not in SUFFIXES:
        raise DatasetError(f"{name}: allowed are {', '.join(SUFFIXES)}")
    if len(data) > limits.file_bytes:
        raise DatasetError(f"{name}: {_mib(len(data))} MiB, allowed are {_mib(limits.file_bytes)}: split the file")
    if files == limits.files:
        raise DatasetError(f"{name}: allowed are {limits.files} files: put more of them into a folder for --corpus")
    if total + len(data) > limits.total_bytes:
        allowed = f"allowed are {_mib(limits.total_bytes)} MiB in all"
        raise DatasetError(f"{name}: {allowed}: put more into a folder for --corpus")


def _mib(size: int) -> str:
    return f"{size / MIB:.3g}"
