"""A durable key-value store in one SQLite file: what was paid for is never paid for twice."""

from __future__ import annotations

import hashlib
import logging
import os
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

from ragtune.core.errors import ConfigError

T = TypeVar("T")
V = TypeVar("V", float, bytes, str)

_BUSY_SECONDS = 60.0
_CHUNK = 500  # SQLite's bound variables per statement are limited; 999 in old builds
_log = logging.getLogger(__name__)


class SqliteCache(Generic[V]):
    """Values with checksums in one SQLite file; safe after kill -9. A damaged file is kept aside (``*.corrupt``).

    Values older than ``ttl_s`` seconds, or of unknown age, are forgotten; None keeps all.
    """

    def __init__(self, path: Path, noun: str, column: str) -> None:
        self.path = path
        self._noun = noun
        options = "WITHOUT ROWID" if "REAL" in column else ""  # halves the file where values are a few bytes
        columns = f"key BLOB PRIMARY KEY, {column}, checksum INTEGER"
        self._create = f"CREATE TABLE IF NOT EXISTS {noun}s ({columns}) {options}"
        self._columns = ["key", column.split()[0], "checksum"]
        self.ttl_s: float | None = None
        self._pruned = 0.0
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._owner = 0
        self._inode = 0

    @staticmethod
    def key(*parts: str) -> bytes:
        """Return 32 bytes that identify what a value depends on, e.g. (model identity, max length, query, text)."""
        sha = hashlib.sha256()
        for part in parts:
            data = part.encode()
            sha.update(len(data).to_bytes(8, "big") + data)
        return sha.digest()

    def check(self) -> None:
        """Open the file now."""
        try:
            self._run(lambda db: db.execute(f"SELECT 1 FROM {self._noun}s LIMIT 1").fetchall())
        except sqlite3.OperationalError as error:
            raise self._unusable(error) from error

    def get(self, keys: Sequence[bytes]) -> dict[bytes, V]:
        """Return the known values of ``keys``."""
        found: dict[bytes, V] = {}
        for start in range(0, len(keys), _CHUNK):
            found |= self._run(partial(self._select, keys=keys[start : start + _CHUNK]))
        return found

    def put(self, values: Mapping[bytes, V]) -> None:
        """Store values. A warning names values that cannot be written (full disk)."""
        try:
            self._run(partial(self._insert, rows=list(values.items())))
        except (sqlite3.OperationalError, ConfigError) as error:
            what = f"{len(values)} {self._noun}s in {self.path}"
            _log.warning("cannot keep %s (%s): they would be paid for again", what, error)

    def close(self) -> None:
        """Close the connection, which reopens on use."""
        with self._lock:
            if self._connection is not None and self._owner == os.getpid():
                self._connection.close()
            self._connection = None

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"} | {"_connection": None}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state, _lock=threading.RLock())

    def _run(self, action: Callable[[sqlite3.Connection], T]) -> T:
        with self._lock:
            try:
                return action(self._open())
            except sqlite3.OperationalError:
                raise
            except sqlite3.DatabaseError as error:
                self._set_aside(error)
                return action(self._open())

    def _open(self) -> sqlite3.Connection:
        # A connection must not cross a fork, hence the owner.
        if self._connection is not None and self._owner == os.getpid():
            return self._connection
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            db = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level="IMMEDIATE", check_same_thread=False)
            db.text_factory = partial(str, encoding="utf-8", errors="replace")  # a damaged text fails its checksum
            self._inode = self.path.stat().st_ino
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=NORMAL")
            self._set_up(db)
        except (OSError, sqlite3.OperationalError) as error:
            raise self._unusable(error) from error
        self._connection, self._owner = db, os.getpid()
        return db

    def _unusable(self, error: Exception) -> ConfigError:
        return ConfigError(
            f"the {self._noun} cache {self.path} cannot be used ({error}): "
            "give a writable folder as cache_dir (--score-cache) or in RAGTUNE_CACHE, or cache_dir=null for none"
        )

    def _set_up(self, db: sqlite3.Connection) -> None:
        """Make the table, or check that it is ours; an early one gets the columns that it lacks."""
        db.execute(self._create)
        found: list[str] = [name for _, name, *_ in db.execute(f"PRAGMA table_info({self._noun}s)")]
        if found[:2] != self._columns[:2] or not {*found} <= {*self._columns, "made"}:
            raise sqlite3.DatabaseError(f"its columns are {', '.join(found)}")
        for column in ("checksum", *self._age_column):
            if column not in found:
                db.execute(f"ALTER TABLE {self._noun}s ADD COLUMN {column} INTEGER")

    def _set_aside(self, error: sqlite3.DatabaseError) -> None:
        self.close()
        if not self.path.exists() or self.path.stat().st_ino != self._inode:
            return  # another process has replaced the damaged file already
        _log.warning(
            "corrupt %s cache %s (%s): moved aside to *.corrupt, a new one is started", self._noun, self.path, error
        )
        for suffix in ("", "-wal", "-shm"):
            part = self.path.with_name(self.path.name + suffix)
            if part.exists():
                part.replace(part.with_name(part.name + ".corrupt"))

    def _select(self, db: sqlite3.Connection, keys: Sequence[bytes]) -> dict[bytes, V]:
        marks = ",".join("?" * len(keys))
        young = "" if self.ttl_s is None else f" AND made >= {time.time() - self.ttl_s}"
        asked = f"SELECT {', '.join(self._columns)} FROM {self._noun}s WHERE key IN ({marks}){young}"
        rows = list(db.execute(asked, list(keys)))
        sound = {key: value for key, value, checksum in rows if _is_sound(key, value, checksum)}
        if len(sound) < len(rows):
            _log.warning("%d damaged %ss in %s are not used", len(rows) - len(sound), self._noun, self.path)
        return sound

    def _insert(self, db: sqlite3.Connection, rows: Sequence[tuple[bytes, V]]) -> None:
        with db:
            now: float = time.time()
            columns = [*self._columns, *self._age_column]
            checked = [(key, value, _checksum(key, value), now)[: len(columns)] for key, value in rows]
            into = f"{self._noun}s ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
            db.executemany(f"INSERT OR REPLACE INTO {into}", checked)
            if self.ttl_s is not None and now > self._pruned + self.ttl_s:
                self._pruned = now
                db.execute(f"DELETE FROM {self._noun}s WHERE ifnull(made, 0) < {now - self.ttl_s}")

    @property
    def _age_column(self) -> list[str]:
        return [] if self.ttl_s is None else ["made"]


def _is_sound(key: object, value: object, checksum: object) -> bool:
    """Whether a row is as it was written; SQLite may make anything of a damaged one, of each of its columns."""
    return isinstance(key, bytes) and value is not None and checksum in (None, _checksum(key, value))


def _checksum(key: bytes, value: object) -> int:
    return zlib.crc32(value if isinstance(value, bytes) else repr(value).encode(errors="replace"), zlib.crc32(key))
