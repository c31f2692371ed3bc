"""The journal of work in progress, which keeps finished queries whatever happens to the process."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Collection, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar
from zlib import crc32

from experiments.evaluate.record import QueryRecord
from experiments.evaluate.storedrecords import StoredRecords
from experiments.replay.inputs import require_same
from ragtune.core.errors import ConfigError

_VERSION = 5
"""Version of the lines that are written. Of the first, which has none in its header, traces were JSON in JSON; up to
the second, rankings were lists of positions; up to the third, ids of documents were always a list; up to the fourth,
lines had no checksum. All are read, and what is added to a journal that has none has none either."""

_CHECKED = 5
"""Version from which on each line ends with a tab and its CRC-32: of 200 flipped bytes, 45 gave records of something
else unnoticed, and to look for damage in traces took two thirds of the time in which a journal is read."""

_WRITTEN = 2**20
"""Bytes of lines that are written at once."""


class Finished(Protocol):
    """What a finished query leaves behind."""

    @property
    def query_id(self) -> str:
        """Id of the query."""

    def to_line(self) -> bytes:
        """The record as one line."""


R = TypeVar("R", bound=Finished)


class JournalOf(Generic[R]):
    """A file of lines: a header with the identity of the work, then one record for each finished query.

    A line that a crash cut short or garbled is discarded on opening, with all later lines; these queries are done
    again. Of several records of a query, the last counts.

    Args:
        folder: where the file is.
        identity: identity of the work, see :func:`experiments.replay.inputs.identity`.
        resume: keep the records of an existing journal; otherwise start over.

    Raises:
        ConfigError: if an existing journal was begun with another configuration or other data, or by a later version.
    """

    NAME = "journal.jsonl"
    ELSEWHERE = "resume=true", "choose another hydra.run.dir"
    """Why a journal is continued, and what else can be done where it cannot, for messages."""

    def __init__(self, folder: Path, identity: Mapping[str, Any], *, resume: bool) -> None:
        self.path = folder / self.NAME
        self.finished: Mapping[str, R] = self._none()
        self._identity, self._version = identity, _VERSION
        kept = self._read() if resume and self.path.exists() else 0
        self._must_stay = kept > 0  # without it, a failed run whose summary is there would pass for a complete one
        # Unbuffered, so that a line which does not fit on the disk can be taken back whole.
        self._file = self.path.open("r+b" if kept else "w+b", buffering=0)
        self._end = self._file.seek(kept)
        self._file.truncate()
        if not kept:
            self._version = _VERSION
            self._begin(json.dumps({**identity, "version": _VERSION}).encode() + b"\n")

    def _none(self) -> Mapping[str, R]:
        """Where finished queries are kept, empty."""
        self._held: dict[str, R] = {}
        return self._held

    def _read(self) -> int:
        """Load the whole lines; the length in bytes that they take."""
        kept = 0
        with self.path.open("rb") as lines:
            for number, line in enumerate(lines):
                if not line.endswith(b"\n"):
                    break
                try:
                    self._keep(line, kept, is_header=number == 0)
                except ConfigError:
                    raise
                except (TypeError, KeyError, ValueError):
                    break
                kept += len(line)
        return kept

    def _keep(self, line: bytes, at: int, *, is_header: bool) -> None:
        if is_header:
            header = json.loads(line)
            if "fingerprint" not in header:
                raise KeyError("fingerprint")
            require_same(self._identity, header, f"{str(self.path)!r} was begun with", *self.ELSEWHERE)
            self._version = header.get("version", 1)
            if self._version > _VERSION:
                raise ConfigError(f"{str(self.path)!r} is of a later version of RAGtune: use that one, or start over")
            return
        content = line[:-1]
        if self._version >= _CHECKED:
            content, _, checksum = content.rpartition(b"\t")
            if checksum != _checksum(content):
                raise ValueError(checksum)
        self._remember(self._parsed(content, is_sound=self._version >= _CHECKED), at, len(content))

    @staticmethod
    @abstractmethod
    def _parsed(line: bytes, *, is_sound: bool) -> R:
        """The record that a line holds, which is what was written, or may be damaged.

        Raises:
            TypeError, KeyError, ValueError: if it is.
        """

    def _remember(self, record: R, at: int, length: int) -> None:
        """Enter a record into ``finished`` that stands in the file at ``at``."""
        self._held[record.query_id] = record

    def append(self, *records: R) -> None:
        """Add the records of finished queries, all or none; of many lines, :data:`_WRITTEN` bytes are in memory."""
        begin, places, lines = self._end, list[tuple[int, int]](), bytearray()
        try:
            for record in records:
                content = record.to_line()
                places.append((self._end + len(lines), len(content)))
                lines += self._line(content)
                if len(lines) >= _WRITTEN:
                    self._write(lines)
                    lines = bytearray()
            self._write(lines)
        except OSError:
            self._end = self._file.truncate(self._file.seek(begin))
            raise
        for record, place in zip(records, places, strict=True):
            self._remember(record, *place)

    def _line(self, content: bytes) -> bytes:
        return b"\t".join((content, _checksum(content))) + b"\n" if self._version >= _CHECKED else content + b"\n"

    def _begin(self, header: bytes) -> None:
        try:
            self._write(header)
        except OSError:
            self._close()
            raise

    def _write(self, lines: bytes | bytearray) -> None:
        rest = memoryview(lines)
        while rest:
            rest = rest[self._file.write(rest) :]
        self._end += len(lines)

    def _close(self) -> None:
        self._file.close()
        if not self.finished and not self._must_stay:  # nothing to resume: leave nothing
            self.path.unlink(missing_ok=True)

    def forget(self, query_ids: Collection[str]) -> None:
        """Remove the records of some queries, so that resuming replays these."""
        without = set(query_ids)
        self._file.seek(0)
        # Made aside, so that neither a kill nor a full disk in between costs what is kept.
        aside = self.path.with_suffix(".new")
        with aside.open("wb") as file:
            file.write(self._file.readline())
            file.writelines(self._line(self.finished[q].to_line()) for q in self.finished if q not in without)
        aside.replace(self.path)
        self._file.close()
        self._file = self.path.open("r+b", buffering=0)
        self.finished, self._must_stay = self._none(), True
        self._end = self._file.seek(self._read())

    def remove(self) -> None:
        """Remove the journal of a complete run whose files are written."""
        self._file.close()
        self.path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._close()


def _checksum(content: bytes) -> bytes:
    return b"%08x" % crc32(content)


class Journal(JournalOf[QueryRecord]):
    """The journal of a run in its folder, which holds little of its records in memory.

    Args:
        folder, identity, resume: as of :class:`JournalOf`.
        numbers: a number of each query, see :class:`~experiments.evaluate.storedrecords.StoredRecords`.
    """

    finished: StoredRecords

    def __init__(
        self, folder: Path, identity: Mapping[str, Any], *, resume: bool, numbers: Mapping[str, int] | None = None
    ) -> None:
        self._numbers = numbers
        super().__init__(folder, identity, resume=resume)

    def _none(self) -> StoredRecords:
        return StoredRecords(self.path, self._numbers)

    @staticmethod
    def _parsed(line: bytes, *, is_sound: bool) -> QueryRecord:
        record = QueryRecord.from_line(line)
        if not is_sound:
            json.loads(record.trace or "null")  # a cut one would show up where it is too late
        return record

    def _remember(self, record: QueryRecord, at: int, length: int) -> None:
        self.finished.put(record, at, length)
