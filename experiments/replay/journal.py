"""The journal of work in progress, which keeps finished queries if the process dies."""

from __future__ import annotations

import json
import os
import weakref
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar
from zlib import crc32

from experiments.evaluate.record import QueryRecord
from experiments.replay.inputs import require_same
from ragtune.core.errors import ConfigError

_VERSION = 7
"""Version of the lines: JSON, a tab, and its CRC-32, without which a flipped byte could pass for another record."""


class Finished(Protocol):
    """What a finished query leaves behind; as a line for the journal."""

    @property
    def query_id(self) -> str: ...
    def to_line(self) -> bytes: ...


R = TypeVar("R", bound=Finished)


class StoredRecords(Mapping[str, R]):
    """Records by query id, which are read from the file whenever they are asked for, even after it was removed."""

    _descriptor: int

    def __init__(self, path: Path, parsed: Callable[[bytes], R]) -> None:
        self._path, self._parsed = path, parsed
        self._places: dict[str, tuple[int, int]] = {}

    def put(self, query_id: str, at: int, length: int) -> None:
        """Note where the line of a record stands in the file; of several of a query, the last counts."""
        if not self._places:
            self._descriptor = os.open(self._path, os.O_RDONLY)
            weakref.finalize(self, os.close, self._descriptor)
        self._places[query_id] = at, length

    def __getitem__(self, query_id: str) -> R:
        at, length = self._places[query_id]
        return self._parsed(os.pread(self._descriptor, length, at))

    def __contains__(self, query_id: object) -> bool:  # Mapping's own reads the record
        return query_id in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class JournalOf(Generic[R]):
    """A file of lines: a header with the identity of the work, then records of finished queries; the last counts."""

    NAME = "journal.jsonl"
    ELSEWHERE = "resume=true", "choose another hydra.run.dir"
    """Why a journal is continued, and what else can be done where it cannot, for messages."""

    def __init__(self, folder: Path, identity: Mapping[str, Any], *, resume: bool) -> None:
        self.path = folder / self.NAME
        self.finished = StoredRecords[R](self.path, self._parsed)
        self._identity = identity
        kept = self._read() if resume and self.path.exists() else 0
        self._must_stay = kept > 0  # without it, a failed run whose summary is there would pass for a complete one
        # Unbuffered, so that a line which does not fit on the disk can be taken back whole.
        self._file = self.path.open("r+b" if kept else "w+b", buffering=0)
        self._end = self._file.seek(kept)
        self._file.truncate()
        header = json.dumps({**identity, "version": _VERSION}).encode() + b"\n"
        self._empty_size = len(header)
        if not kept:
            try:
                self._write(header)
            except OSError:
                self._close()
                raise

    def _read(self) -> int:
        kept = 0
        with self.path.open("rb") as lines:
            for number, line in enumerate(lines):
                if not line.endswith(b"\n"):
                    break
                try:
                    self._keep(line, kept, is_header=number == 0)
                except (TypeError, KeyError, ValueError) as error:
                    if isinstance(error, ConfigError):
                        raise
                    break
                kept += len(line)
        return kept

    def _keep(self, line: bytes, at: int, *, is_header: bool) -> None:
        if is_header:
            header = json.loads(line)
            _ = header["fingerprint"]
            require_same(self._identity, header, f"{str(self.path)!r} was begun with", *self.ELSEWHERE)
            ours, theirs = self._identity.get("trust"), header.get("trust")
            if ours != theirs:
                begun = f"{self.ELSEWHERE[0]}, but {str(self.path)!r} was begun with trust {theirs}"
                now = f"estimator.trust=auto finds {ours} now, so the reranker has changed"
                raise ConfigError(f"{begun}, and {now}: {self.ELSEWHERE[1]}")
            if header.get("version") != _VERSION:
                raise ConfigError(f"{str(self.path)!r} is of another version of RAGtune: use that one, or start over")
            return
        content, _, checksum = line[:-1].rpartition(b"\t")
        if checksum != _checksum(content):
            raise ValueError(checksum)
        self.finished.put(self._parsed(content).query_id, at, len(content))

    @staticmethod
    @abstractmethod
    def _parsed(line: bytes) -> R:
        """The record that a line holds."""

    def append(self, *records: R) -> None:
        """Add the records of finished queries, all or none."""
        begin, places = self._end, list[tuple[int, int]]()
        try:
            for record in records:
                content = record.to_line()
                places.append((self._end, len(content)))
                self._write(self._line(content))
        except OSError:
            self._end = self._file.truncate(self._file.seek(begin))
            raise
        for record, place in zip(records, places, strict=True):
            self.finished.put(record.query_id, *place)

    def _line(self, content: bytes) -> bytes:
        return b"\t".join((content, _checksum(content))) + b"\n"

    def _write(self, line: bytes) -> None:
        rest = memoryview(line)
        while rest:
            rest = rest[self._file.write(rest) :]
        self._end += len(line)

    def _close(self) -> None:
        if self._file.closed:  # by remove()
            return
        # The file decides: Ctrl-C may come when a record is written and not yet in `finished`.
        is_empty = self._file.seek(0, os.SEEK_END) <= self._empty_size
        self._file.close()
        if is_empty and not self._must_stay:  # nothing to resume: leave nothing
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
        self.finished, self._must_stay = StoredRecords[R](self.path, self._parsed), True
        self._end = self._file.seek(self._read())

    def remove(self) -> None:
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
    """The journal of a run in its folder."""

    @staticmethod
    def _parsed(line: bytes) -> QueryRecord:
        return QueryRecord.from_line(line)
