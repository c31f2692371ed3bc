"""Content hashes of files. A file is read again only when it has changed."""

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

_SETTLED_NS = 2 * 10**9
"""A file that changed a moment ago may change again within one tick of its file system's clock."""

_settled: dict[_Version, str] = {}
"""Digests that this process remembers, since the jobs of a sweep ask for the same files."""


def stamp_of(path: Path) -> Stamp:
    """Return the stamp of the file as it is now.

    Raises:
        OSError: if there is no such file.
    """
    stat = path.stat()
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def file_digests(files: Sequence[Path]) -> list[str]:
    """Return the SHA-256 of each file's content, in hexadecimal.

    This process remembers digests by the file's path and stamp, and the cache folder keeps those of large files. A
    cache that cannot be used costs time only.

    Raises:
        OSError: if a file cannot be read.
    """
    versions = [(str(file), stamp_of(file)) for file in files]
    found = {version: digest for version in versions if (digest := _settled.get(version))}
    found |= _looked_up([version for version in versions if version not in found])
    _settled.update((version, digest) for version, digest in found.items() if _is_settled(version))
    return [found[version] for version in versions]


def _is_settled(version: _Version) -> bool:
    return time.time_ns() - max(version[1][3:]) > _SETTLED_NS


def _key(version: _Version) -> bytes:
    path, stamp = version
    return SqliteCache.key(str(Path(path).resolve()), *map(str, stamp))


def _looked_up(versions: Sequence[_Version]) -> dict[_Version, str]:
    """Digests that the cache folder knows, or that are computed from the files."""
    large = {version: _key(version) for version in versions if version[1][2] >= _WORTH_KEEPING}
    known: dict[_Version, str] = {}
    folder = resolve_cache_dir(AUTO)
    if large and folder is not None:
        with closing(SqliteCache[str](folder / "digests.sqlite", "digest", "digest TEXT")) as cache:
            with suppress(ConfigError, sqlite3.OperationalError):  # put warns about it
                kept = cache.get(list(large.values()))
                known = {version: kept[key] for version, key in large.items() if key in kept}
            made = {version: sha256_of(Path(version[0])) for version in large if version not in known}
            if new := {large[version]: digest for version, digest in made.items() if _is_settled(version)}:
                cache.put(new)
        known |= made
    return known | {version: sha256_of(Path(version[0])) for version in versions if version not in known}
