"""Content hashes of files: a large file is read once, and again when it changed."""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

from ragtune.core.errors import ConfigError
from ragtune.data.diskcache import AUTO, resolve_cache_dir
from ragtune.data.sqlitecache import SqliteCache

Stamp = tuple[int, int, int, int, int]
"""Identifies one version of a file: device, inode, size in bytes, last change of content and of status in ns."""

_WORTH_KEEPING = 2**20
"""Bytes: a smaller file is hashed in the time that a look into the cache takes."""

_SETTLED_NS = 2 * 10**9
"""A file that changed a moment ago may change again within one tick of its file system's clock."""


def stamp_of(path: Path) -> Stamp:
    """The stamp of the file as it is now.

    Raises:
        OSError: if there is no such file.
    """
    stat = path.stat()
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def file_digests(files: Sequence[Path]) -> list[str]:
    """SHA-256 of each file's content, in hexadecimal.

    Those of large files are kept in the cache folder under the file's path and stamp. A cache that cannot be used
    costs time only.

    Raises:
        OSError: if a file cannot be read.
    """
    stamps = [stamp_of(file) for file in files]
    large = [i for i, stamp in enumerate(stamps) if stamp[2] >= _WORTH_KEEPING]
    if not large:
        return [_sha256(file) for file in files]
    keys = {i: SqliteCache.key(str(files[i].resolve()), *map(str, stamps[i])) for i in large}
    known = _known(list(keys.values()))
    digests = [known.get(keys[i]) if i in keys else None for i in range(len(files))]
    made = [digest or _sha256(file) for digest, file in zip(digests, files, strict=True)]
    now = time.time_ns()
    new = {keys[i]: made[i] for i in large if keys[i] not in known and now - max(stamps[i][3:]) > _SETTLED_NS}
    if new:
        _settled.update(new)
        with closing(_cache()) as cache:
            cache.put(new)
    return made


_settled: dict[bytes, str] = {}
"""Digests that this process knows: the jobs of a sweep ask for the same files again and again."""


def _cache() -> SqliteCache[str]:
    folder = resolve_cache_dir(AUTO)
    assert folder is not None  # noqa: S101 -- AUTO always names one; for the type checker
    return SqliteCache(folder / "digests.sqlite", "digest", "key BLOB PRIMARY KEY, digest TEXT", "WITHOUT ROWID")


def _known(keys: Sequence[bytes]) -> dict[bytes, str]:
    if unknown := [key for key in keys if key not in _settled]:
        with closing(_cache()) as cache, suppress(ConfigError, sqlite3.OperationalError):  # put warns about it
            _settled.update(cache.get(unknown))
    return {key: _settled[key] for key in keys if key in _settled}


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
