"""The journal of work in progress, which keeps finished queries whatever happens to the process."""

from __future__ import annotations

import json
import os
import weakref
from abc import abstractmethod
from collections.abc import Collection, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from experiments.evaluate.record import QueryRecord, StoredRecord
from experiments.replay.inputs import require_same
from ragtune.core.errors import ConfigError

_VERSION = 4
"""Version of the lines that are written. Of the first, which has none in its header, traces were JSON in JSON; up to
the second, rankings were lists of positions; up to the third, ids of documents were always a list. All are read."""

_ROOM = 8_000_000
"""How much is held of the documents and rankings of a run's first queries: eight for each id, one for each place, which
takes a byte, or two in a pool of more than 256."""


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
        self.finished: dict[str, R] = {}
        kept = self._read(identity) if resume and self.path.exists() else 0
        self._must_stay = kept > 0  # without it, a failed run whose summary is there would pass for a complete one
        # Unbuffered, so that a line which does not fit on the disk can be taken back whole.
        self._file = self.path.open("r+b" if kept else "w+b", buffering=0)
        self._end = self._file.seek(kept)
        self._file.truncate()
        if not kept:
            self._begin(json.dumps({**identity, "version": _VERSION}).encode() + b"\n")

    def _read(self, identity: Mapping[str, Any]) -> int:
        """Load the whole lines; the length in bytes that they take."""
        kept = 0
        with self.path.open("rb") as lines:
            for number, line in enumerate(lines):
                if not line.endswith(b"\n"):
                    break
                try:
                    self._keep(line, kept, identity, is_header=number == 0)
                except ConfigError:
                    raise
                except (TypeError, KeyError, ValueError):
                    break
                kept += len(line)
        return kept

    def _keep(self, line: bytes, at: int, identity: Mapping[str, Any], *, is_header: bool) -> None:
        if is_header:
            header = json.loads(line)
            if "fingerprint" not in header:
                raise KeyError("fingerprint")
            require_same(identity, header, f"{str(self.path)!r} was begun with", *self.ELSEWHERE)
            if header.get("version", 1) > _VERSION:
                raise ConfigError(f"{str(self.path)!r} is of a later version of RAGtune: use that one, or start over")
            return
        record = self._parsed(line[:-1])
        self.finished[record.query_id] = self._held(record, at, len(line))

    @staticmethod
    @abstractmethod
    def _parsed(line: bytes) -> R:
        """The record that a line holds."""

    def _held(self, record: R, at: int, length: int) -> R:
        """What is held in memory of a record that stands in the file at ``at``."""
        return record

    def append(self, *records: R) -> None:
        """Add the records of finished queries, all or none."""
        lines = [record.to_line() + b"\n" for record in records]
        at = self._write(b"".join(lines))
        for record, line in zip(records, lines, strict=True):
            self.finished[record.query_id] = self._held(record, at, len(line))
            at += len(line)

    def _begin(self, header: bytes) -> None:
        try:
            self._write(header)
        except OSError:
            self._close()
            raise

    def _write(self, lines: bytes) -> int:
        """Add whole lines; where they begin."""
        begin, rest = self._end, memoryview(lines)
        self._end += len(lines)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError:
            self._end = self._file.truncate(self._file.seek(begin))
            raise
        return begin

    def _close(self) -> None:
        self._file.close()
        if not self.finished and not self._must_stay:  # nothing to resume: leave nothing
            self.path.unlink(missing_ok=True)

    def forget(self, query_ids: Collection[str]) -> None:
        """Remove the records of some queries, so that resuming replays these."""
        kept = {query_id: record for query_id, record in self.finished.items() if query_id not in query_ids}
        self._file.seek(0)
        lines = [self._file.readline(), *(record.to_line() + b"\n" for record in kept.values())]
        # Made aside, so that neither a kill nor a full disk in between costs what is kept.
        aside = self.path.with_suffix(".new")
        aside.write_bytes(b"".join(lines))
        aside.replace(self.path)
        self._file.close()
        self._file = self.path.open("r+b", buffering=0)
        self._end = self._file.seek(0, os.SEEK_END)
        self.finished, self._must_stay = kept, True

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


class Journal(JournalOf[QueryRecord]):
    """The journal of a run in its folder. It holds the short parts of its records, and the long ones of the first."""

    def __init__(self, folder: Path, identity: Mapping[str, Any], *, resume: bool) -> None:
        self._lines: _Lines | None = None
        self._latest: StoredRecord | None = None
        self._room = _ROOM
        super().__init__(folder, identity, resume=resume)

    @staticmethod
    def _parsed(line: bytes) -> QueryRecord:
        record = QueryRecord.from_line(line)
        json.loads(record.trace or "null")  # a cut one would show up where it is too late
        return record

    def _held(self, record: QueryRecord, at: int, length: int) -> QueryRecord:
        if self._lines is None:
            self._lines = _Lines(self.path)
        self._room -= 8 * len(record.doc_ids) + sum(map(len, record.rankings))
        self._latest = StoredRecord(record, self._lines, at, length - 1, self._latest, held=self._room >= 0)
        return self._latest

    def forget(self, query_ids: Collection[str]) -> None:
        super().forget(query_ids)
        self._lines = None  # of another file, to which the records that are kept still belong


class _Lines:
    """Reads a journal's lines again, also once the file is removed."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._descriptor)

    def read(self, at: int, length: int) -> bytes:
        return os.pread(self._descriptor, length, at)
