"""The journal of a run in progress, which keeps finished queries whatever happens to the process."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from experiments.evaluate.record import QueryRecord
from experiments.replay.inputs import require_same


class Journal:
    """A file of JSON lines: a header with the identity of the run, then one record for each finished query.

    A line that a crash cut short or garbled is discarded on opening, with all later lines; these queries are replayed
    again.

    Args:
        folder: the run directory.
        identity: identity of the run, see :func:`experiments.replay.inputs.identity`.
        resume: keep the records of an existing journal; otherwise start over.

    Raises:
        ConfigError: if an existing journal was begun with another configuration or other data.
    """

    NAME = "journal.jsonl"

    def __init__(self, folder: Path, identity: Mapping[str, Any], *, resume: bool) -> None:
        self.path = folder / self.NAME
        self.finished: dict[str, QueryRecord] = {}
        kept = self._read(identity) if resume and self.path.exists() else 0
        self._must_stay = kept > 0  # without it, a failed run whose summary is there would pass for a complete one
        # Unbuffered, so that a line which does not fit on the disk can be taken back whole.
        self._file = self.path.open("r+b" if kept else "w+b", buffering=0)
        self._file.seek(kept)
        self._file.truncate()
        if not kept:
            self._begin(json.dumps(identity))

    def _read(self, identity: Mapping[str, Any]) -> int:
        """Load the whole lines; the length in bytes that they take."""
        kept = 0
        with self.path.open("rb") as lines:
            for number, line in enumerate(lines):
                if not line.endswith(b"\n"):
                    break
                try:
                    self._keep(line, identity, is_header=number == 0)
                except (TypeError, KeyError, json.JSONDecodeError, UnicodeDecodeError):
                    break
                kept += len(line)
        return kept

    def _keep(self, line: bytes, identity: Mapping[str, Any], *, is_header: bool) -> None:
        if is_header:
            header = json.loads(line)
            if "fingerprint" not in header:
                raise KeyError("fingerprint")
            require_same(identity, header, f"{str(self.path)!r} was begun with")
            return
        record = QueryRecord.from_json(line.decode())
        self.finished[record.query_id] = record

    def append(self, record: QueryRecord) -> None:
        """Add the record of a finished query."""
        self._write(record.to_json())
        self.finished[record.query_id] = record

    def _begin(self, header: str) -> None:
        try:
            self._write(header)
        except OSError:
            self._close()
            raise

    def _write(self, line: str) -> None:
        end, rest = self._file.tell(), line.encode() + b"\n"
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError:
            self._file.truncate(self._file.seek(end))
            raise

    def _close(self) -> None:
        self._file.close()
        if not self.finished and not self._must_stay:  # nothing to resume: leave nothing
            self.path.unlink(missing_ok=True)

    def forget(self, query_ids: Collection[str]) -> None:
        """Remove the records of some queries, so that resuming replays these."""
        kept = {query_id: record for query_id, record in self.finished.items() if query_id not in query_ids}
        self._file.seek(0)
        lines = [self._file.readline(), *(record.to_json().encode() + b"\n" for record in kept.values())]
        # Made aside, so that neither a kill nor a full disk in between costs what is kept.
        aside = self.path.with_suffix(".new")
        aside.write_bytes(b"".join(lines))
        aside.replace(self.path)
        self._file.close()
        self._file = self.path.open("r+b", buffering=0)
        self._file.seek(0, os.SEEK_END)
        self.finished, self._must_stay = kept, True

    def remove(self) -> None:
        """Remove the journal of a complete run whose files are written."""
        self._file.close()
        self.path.unlink(missing_ok=True)

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._close()
