"""What each key has used on a day, in one SQLite file, and how much is left of its limits."""

from __future__ import annotations

import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ragtune.core.errors import ConfigError
from ragtune.core.types import CostObject
from ragtune.services.errors import AdapterError

UNITS = ("docs", "calls", "usd")
"""Units of daily limits."""

_TABLE = "CREATE TABLE IF NOT EXISTS usage (day TEXT, key TEXT, docs INT, calls INT, usd REAL, PRIMARY KEY (day, key))"
_ADD = """INSERT INTO usage VALUES (?, ?, ?, ?, ?) ON CONFLICT (day, key) DO UPDATE
SET docs = docs + excluded.docs, calls = calls + excluded.calls, usd = usd + excluded.usd"""


class Usage:
    """Counts documents, calls and dollars of each key and day (UTC); thread-safe, and durable when a process is killed.

    Args:
        file: the SQLite file. It has digests of keys, no keys.
        limits: what a key may use on a day, by unit of :data:`UNITS`.
        refuses: whether a key over its limit gets status 429; otherwise it gets the first stage's order.

    Raises:
        ConfigError: if the file cannot be written.
    """

    def __init__(self, file: Path, limits: Mapping[str, float], *, refuses: bool = False) -> None:
        self.limits = dict(limits)
        self._refuses = refuses
        self._lock = threading.Lock()
        self._reserved: Counter[str] = Counter()
        try:
            self._database = sqlite3.connect(file, timeout=10.0, isolation_level=None, check_same_thread=False)
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute(_TABLE)
        except sqlite3.Error as error:
            raise ConfigError(f"--usage {file}: cannot be used ({error})") from error

    @contextmanager
    def lease(self, key: str, documents: int) -> Iterator[tuple[dict[str, float], list[CostObject]]]:
        """The limits that are left to a request with so many documents, and a list for its costs.

        Documents are reserved while the block lasts. Requests at the same time may together pass the limits of calls
        and dollars by the cost of one request each.

        Raises:
            AdapterError: with status 429, if nothing is left and keys over their limits are refused.
        """
        with self._lock:
            used = self._of(key)
            used["docs"] += self._reserved[key]
            left = {unit: max(0, limit - used[unit]) for unit, limit in self.limits.items()}
            is_over = any(amount <= 0 for amount in left.values())
            if is_over and self._refuses:
                raise _refusal()
            reserved = 0 if is_over else int(min(documents, left.get("docs", documents)))
            self._reserved[key] += reserved
        costs: list[CostObject] = []
        try:
            yield left, costs
        finally:
            with self._lock:
                self._reserved[key] -= reserved
                for cost in costs:
                    self._database.execute(_ADD, (_today(), key, cost.docs, cost.calls, cost.usd))

    def _of(self, key: str) -> dict[str, float]:
        query = "SELECT docs, calls, usd FROM usage WHERE day = ? AND key = ?"
        found = self._database.execute(query, (_today(), key)).fetchone()
        return dict(zip(UNITS, found or (0, 0, 0.0), strict=True))

    def close(self) -> None:
        with self._lock:
            self._database.close()


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def _refusal() -> AdapterError:
    now = datetime.now(UTC)
    midnight = (now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    seconds = str(1 + int((midnight - now).total_seconds()))
    return AdapterError("over-limit", "This key has used what it may on a day (UTC).", {"Retry-After": seconds})
