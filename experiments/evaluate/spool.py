"""Things that are looked at once more, later, and would take too much memory until then."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Generic, TypeVar

T = TypeVar("T")


class Spool(Generic[T]):
    """Things in the order in which they came: the first are held, the others wait in a file that has no name.

    Args:
        folder: where the file is, once it is needed.
        room: how much is held, in the unit in which things are sized.
    """

    def __init__(self, folder: Path, room: int) -> None:
        self._folder, self._room = folder, room
        self._held: list[T] = []
        self._file: IO[bytes] | None = None

    def append(self, thing: T, size: int) -> None:
        """Add a thing that takes so much room.

        Raises:
            OSError: if it has no place on the disk.
        """
        self._room -= size
        if self._room >= 0:
            self._held.append(thing)
            return
        if self._file is None:
            self._file = TemporaryFile(dir=self._folder)  # noqa: SIM115 - it lasts as long as the spool
        pickle.dump(thing, self._file, protocol=pickle.HIGHEST_PROTOCOL)

    def __iter__(self) -> Iterator[T]:
        yield from self._held
        if self._file is not None:
            self._file.seek(0)
            try:
                while True:
                    yield pickle.load(self._file)  # noqa: S301 - nobody else can write to a file without a name
            except EOFError:
                return
