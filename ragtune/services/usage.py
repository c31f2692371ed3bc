"""What each key has used on a day, in one SQLite file, and how much is left of its limits."""

from __future__ import annotations

import sqlite3
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from ragtune.core.errors import ConfigError
from ragtune.core.types import CostObject
from ragtune.services.errors import AdapterError

UNITS = ("docs", "calls", "usd")
"""Units of daily limits."""

_TABLE = "CREATE TABLE IF NOT EXISTS usage (day TEXT, key TEXT, docs INT, calls INT, usd REAL, PRIMARY KEY (day, key))"
_ADD = """INSERT INTO usage VALUES (?, ?, ?, ?, ?) ON CONFLICT (day, key) DO UPDATE
SET docs = docs + excluded.docs, calls = calls + excluded.calls, usd = usd + excluded.usd"""
_READ = "SELECT docs, calls, usd FROM usage WHERE day = ? AND key = ?"
_TURN_S, _READ_S, _WRITE_S = 0.5, 0.4, 0.1  # waits for other requests, and for other processes


class Refused(NamedTuple):
    """Why no model is asked for a request: a reason to stop and a message."""

    reason: str
    message: str


class Lease(NamedTuple):
    """The limits that are left to a request, a list for its costs, and why no model may be asked for it, if so."""

    left: dict[str, float]
    costs: list[CostObject]
    refused: Refused | None = None


_OVER = Refused("over_limit", "the key has used what it may use on a day")
_UNREAD = Refused("usage_unavailable", "the usage file cannot be read at present")


class KeyUsage:
    """Counts documents, calls and dollars of each key and day (UTC); thread-safe, and durable when a process is killed.

    Amounts that cannot be written stay in memory, and are written with the next request. The SQLite file has digests of
    keys, no keys. ``limits`` are what a key may use on a day; one over them gets status 429 if the server ``refuses``.
    """

    def __init__(self, file: Path, limits: Mapping[str, float], *, refuses: bool = False) -> None:
        self.limits = dict(limits)
        self._file = file
        self._refuses = refuses
        self._lock = threading.Lock()  # of what is in memory
        self._turn = threading.Lock()  # of the file; taken first
        self._reserved: Counter[str] = Counter()
        self._unwritten: dict[tuple[str, str], list[float]] = {}
        self._failing: set[str] = set()
        try:
            self._database = sqlite3.connect(file, timeout=10.0, isolation_level=None, check_same_thread=False)
            self._database.execute(_TABLE)
            self._database.execute(f"EXPLAIN {_READ}", ("", ""))
            self._database.execute(f"EXPLAIN {_ADD}", ("", "", 0, 0, 0.0))
            self._database.execute("PRAGMA journal_mode=WAL")
        except (sqlite3.Error, ValueError) as error:
            raise ConfigError(f"--usage {file}: cannot be used ({error})") from error

    @contextmanager
    def lease(self, key: str, documents: int) -> Iterator[Lease]:
        """The limits that are left to a request with so many documents, and a list for its costs.

        Documents are reserved while the block lasts. Requests at the same time may together pass the limits of calls
        and dollars by the cost of one request each. A file that cannot be read within a second leaves nothing.
        """
        lease, reserved = self._begun(key, documents)
        if lease.refused is _OVER and self._refuses:
            raise _refusal()
        try:
            yield lease
        finally:
            with self._lock:
                self._reserved[key] -= reserved
                for cost in lease.costs:
                    amounts = self._unwritten.setdefault((_today(), key), [0, 0, 0.0])
                    for i, amount in enumerate((cost.docs, cost.calls, cost.usd)):
                        amounts[i] += amount
            self._write(_TURN_S)

    def close(self) -> None:
        """Write what is not written yet, and close the file."""
        self._write(2.0)
        with self._lock:
            lost = [sum(each) for each in zip(*self._unwritten.values(), strict=True)]
        if any(lost):
            amounts = ", ".join(f"{amount:g} {unit}" for amount, unit in zip(lost, UNITS, strict=True))
            sys.stderr.write(f"ragtune: warning: --usage {self._file}: {amounts} could not be written\n")
        with self._turn:
            self._database.close()

    def _begun(self, key: str, documents: int) -> tuple[Lease, int]:
        try:
            with self._held(_TURN_S, _READ_S) if self.limits else nullcontext() as database:
                written = None if database is None else database.execute(_READ, (_today(), key)).fetchone()
                self._failing.discard("read")
                return self._reserve(key, documents, written or (0, 0, 0.0))
        except (sqlite3.Error, TimeoutError) as error:
            self._report("read", str(error))
            return Lease({}, [], _UNREAD), 0

    def _reserve(self, key: str, documents: int, written: Sequence[float]) -> tuple[Lease, int]:
        with self._lock:
            unwritten = self._unwritten.get((_today(), key), (0, 0, 0.0))
            used = {unit: one + more for unit, one, more in zip(UNITS, written, unwritten, strict=True)}
            used["docs"] += self._reserved[key]
            left = {unit: max(0, limit - used[unit]) for unit, limit in self.limits.items()}
            if any(amount <= 0 for amount in left.values()):
                return Lease(left, [], _OVER), 0
            reserved = int(min(documents, left.get("docs", documents)))
            self._reserved[key] += reserved
            return Lease(left, []), reserved

    def _write(self, turn_s: float) -> None:
        try:
            with self._held(turn_s, _WRITE_S) as database:
                with self._lock:
                    rows = {row: tuple(amounts) for row, amounts in self._unwritten.items()}
                if not rows:
                    return
                database.execute("BEGIN IMMEDIATE")
                with database:
                    database.executemany(_ADD, [(*row, *amounts) for row, amounts in rows.items()])
                with self._lock:
                    for row, amounts in rows.items():
                        rest = [has - done for has, done in zip(self._unwritten.pop(row), amounts, strict=True)]
                        if any(rest):
                            self._unwritten[row] = rest
                self._failing.discard("written")
        except TimeoutError:
            return  # the next request writes it
        except sqlite3.Error as error:
            self._report("written", str(error))

    @contextmanager
    def _held(self, turn_s: float, wait_s: float) -> Iterator[sqlite3.Connection]:
        """The file, which one thread has at a time, and how long it waits for other processes."""
        if not self._turn.acquire(timeout=turn_s):
            raise TimeoutError("other requests wait for it")
        try:
            self._database.execute(f"PRAGMA busy_timeout={1000 * wait_s:.0f}")
            yield self._database
        finally:
            self._turn.release()

    def _report(self, what: str, why: str) -> None:
        """One line when the file begins to fail, not one a request."""
        if what not in self._failing:
            self._failing.add(what)
            sys.stderr.write(f"ragtune: warning: --usage {self._file}: cannot be {what} at present ({why})\n")


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def _refusal() -> AdapterError:
    now = datetime.now(UTC)
    midnight = (now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    seconds = str(1 + int((midnight - now).total_seconds()))
    return AdapterError("over-limit", "This key has used what it may on a day (UTC).", {"Retry-After": seconds})
