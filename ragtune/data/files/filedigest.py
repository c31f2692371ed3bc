"""Content hashes of files: a file is read once, and again when it changed."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

from ragtune.core.errors import ConfigError
from ragtune.data.caches.diskcache import AUTO, resolve_cache_dir, sha256_of
from ragtune.data.caches.sqlitecache import SqliteCache

Stamp = tuple[int, int, int, int, int]
"""Identifies one version of a file: device, inode, size in bytes, last change of content and of status in ns."""

_Version = tuple[str, Stamp]
"""A file's path and stamp."""

_WORTH_KEEPING = 2**20
"""Bytes: a smaller file is hashed in the time that a look into the cache folder takes."""

_REMEMBERED = 2**12
"""Versions of files whose digests this process remembers: the jobs of a sweep ask for the same ones again and again."""

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

    This process remembers them under the file's path and stamp, and so does the cache folder those of large files. A
    cache that cannot be used costs time only.

    Raises:
        OSError: if a file cannot be read.
    """
    versions = [(str(file), stamp_of(file)) for file in files]
    found = {version: digest for version in versions if (digest := _settled.get(version))}
    new = _looked_up([version for version in versions if version not in found])
    if len(_settled) >= _REMEMBERED:
        _settled.clear()
    _settled.update((version, digest) for version, digest in new.items() if _is_settled(version))
    found |= new
    return [found[version] for version in versions]


_settled: dict[_Version, str] = {}
"""Digests that this process remembers."""


def _is_settled(version: _Version) -> bool:
    return time.time_ns() - max(version[1][3:]) > _SETTLED_NS


def _looked_up(versions: Sequence[_Version]) -> dict[_Version, str]:
    """Digests that the cache folder knows, or that are made of the files."""
    large = [version for version in versions if version[1][2] >= _WORTH_KEEPING]
    keys = {(path, stamp): SqliteCache.key(str(Path(path).resolve()), *map(str, stamp)) for path, stamp in large}
    kept: dict[bytes, str] = {}
    if keys:
        with closing(_cache()) as cache, suppress(ConfigError, sqlite3.OperationalError):  # put warns about it
            kept = cache.get(list(keys.values()))
    known = {version: kept[key] for version, key in keys.items() if key in kept}
    made = {version: sha256_of(Path(version[0])) for version in versions if version not in known}
    if new := {keys[version]: made[version] for version in large if version in made and _is_settled(version)}:
        with closing(_cache()) as cache:
            cache.put(new)
    return known | made


def _cache() -> SqliteCache[str]:
    folder = resolve_cache_dir(AUTO)
    assert folder is not None  # noqa: S101 -- AUTO always names one; for the type checker
    return SqliteCache(folder / "digests.sqlite", "digest", "key BLOB PRIMARY KEY, digest TEXT", "WITHOUT ROWID")
