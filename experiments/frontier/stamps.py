"""Tells whether the data that configurations name have changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

Stamp = tuple[str, int, int]
"""Path, size in bytes, and time of change in ns."""


class DataStamps:
    """Stamps of the files that configurations name, each path looked at once.

    Args:
        results: a folder whose files are no data, wherever it lies.
    """

    def __init__(self, results: Path) -> None:
        self._results = results.resolve()
        self._known: dict[str, list[Stamp]] = {}

    def of(self, config: Mapping[str, Any]) -> list[Stamp]:
        """Of every file that a text of the configuration names, or that lies below a folder so named."""
        return [stamp for text in sorted(set(_texts(config))) for stamp in self._stamps(text)]

    def _stamps(self, text: str) -> list[Stamp]:
        if text not in self._known:
            self._known[text] = list(self._look(text))
        return self._known[text]

    def _look(self, text: str) -> Iterator[Stamp]:
        try:
            path = Path(text).expanduser()
            files = sorted(path.rglob("*")) if text and path.is_dir() else [path]
        except (OSError, RuntimeError):  # too long for a path, hidden from this user, or of a user who has no home
            return
        for file in files:
            if file.is_file() and self._results not in file.resolve().parents:
                stat = file.stat()
                yield str(file), stat.st_size, stat.st_mtime_ns


def _texts(node: Any) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    elif isinstance(node, Mapping):
        for value in node.values():
            yield from _texts(value)
    elif isinstance(node, (list, tuple)):
        for value in node:
            yield from _texts(value)
