"""Derived data on disk, never half-written and rebuilt with a warning when damaged; content hashes of files."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

AUTO = "auto"
"""``cache_dir`` of components: the platform's cache folder, see :func:`resolve_cache_dir`."""

_MANIFEST = "manifest.json"
_log = logging.getLogger(__name__)


def resolve_cache_dir(cache_dir: str | Path | None) -> Path | None:
    """Return the folder that ``cache_dir`` means: None for no cache, a path for itself, ``auto`` for the default."""
    if cache_dir is None:
        return None
    return default_cache_dir() if cache_dir == AUTO else Path(cache_dir).expanduser()


def default_cache_dir() -> Path:
    """Return ``$RAGTUNE_CACHE``, else ``$XDG_CACHE_HOME/ragtune``, else ``~/.cache/ragtune``."""
    if own := os.environ.get("RAGTUNE_CACHE"):
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "ragtune"


class DiskCache:
    """Folders of files with checksums, one per key. A cache that cannot be used costs time and a warning only."""

    def __init__(self, kind: str, cache_dir: str | Path | None = AUTO) -> None:
        folder = resolve_cache_dir(cache_dir)
        self._root = None if folder is None else folder / kind

    def path(self, key: str) -> Path | None:
        """Return the folder of the entry of that key; None without a cache."""
        return None if self._root is None else self._root / hashlib.sha256(key.encode()).hexdigest()[:32]

    def fetch(
        self, key: str, build: Callable[[], T], save: Callable[[T, Path], object], load: Callable[[Path], T]
    ) -> T:
        """Return the value of ``key``: loaded if the entry is sound, else built and saved."""
        entry = self.path(key)
        found = _loaded(entry, load)
        if found is not None:
            return found
        value = build()
        if entry is not None:
            _store(entry, lambda folder: save(value, folder))
        return value

    def written(self, key: str, write: Callable[[Path], None], load: Callable[[Path], T]) -> T | None:
        """Return a value that stays on disk: loaded from the entry of ``key``, which is written where it is missing."""
        entry = self.path(key)
        found = _loaded(entry, load)
        if found is not None or entry is None:
            return found
        return load(entry) if _store(entry, write) else None


def _loaded(entry: Path | None, load: Callable[[Path], T]) -> T | None:
    """The value of an entry; None where there is none, or a damaged one, which a warning names."""
    if entry is None or not os.path.lexists(entry):
        return None
    try:
        manifest = json.loads((entry / _MANIFEST).read_text(encoding="utf-8"))
        for name, digest in manifest.items():
            if sha256_of(entry / name) != digest:
                raise ValueError(f"{name} does not match its checksum")
        return load(entry)
    except Exception as error:
        _log.warning("corrupt cache entry %s (%s: %s): rebuilding it", entry, type(error).__name__, error)
        return None


def _store(entry: Path, write: Callable[[Path], object]) -> bool:
    """Write an entry, and replace a damaged one; False, with a warning, where that is not possible."""
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=entry.parent, prefix=".new-", ignore_cleanup_errors=True) as scratch:
            fresh = Path(scratch) / "entry"
            fresh.mkdir()
            write(fresh)
            digests = {file.name: sha256_of(file) for file in sorted(fresh.iterdir())}
            (fresh / _MANIFEST).write_text(json.dumps(digests, indent=1), encoding="utf-8")
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)
            try:
                fresh.rename(entry)
            except OSError:
                if not entry.is_dir():
                    raise
                # Another process put its entry there in the meantime; both were built from the same key.
    except OSError as error:
        _log.warning("cannot write the cache entry %s (%s): going on without it", entry, error)
        return False
    return True


def sha256_of(file: Path) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal digits."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


Stamp = tuple[int, int, int, int, int]
"""Identifies one version of a file: device, inode, size in bytes, last change of content and of status in ns."""


def stamp_of(path: Path) -> Stamp:
    """Return the stamp of the file as it is now."""
    stat = path.stat()
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns
