"""Collections in one file of ``ragtune pack``: fetched from a path or URL, checked, and unpacked into the cache."""

from __future__ import annotations

import json
import re
import shutil
import tarfile
from contextlib import suppress
from io import FileIO
from pathlib import Path
from tempfile import TemporaryDirectory

from ragtune.core.errors import DatasetError
from ragtune.core.plain import first_line
from ragtune.data.caches.diskcache import default_cache_dir, sha256_of

META = "pt_meta.json"
"""The manifest of a pack, where PyTerrier's artifacts have theirs: ``files`` has the SHA-256 of each other member."""


MOST_BYTES = 2**20
"""Of a manifest, a licence, and any header of the archive: these are read whole."""


class _Archive(FileIO):
    """Refuses to read much at once, as tarfile does where a header declares that it is large."""

    def read(self, size: int | None = -1) -> bytes:
        if size is None or not 0 <= size <= MOST_BYTES:
            raise DatasetError("a header of it is too large")
        return super().read(size) or b""


def unpacked(source: str) -> str:
    """Return the folder with the content of a pack, in BEIR's layout. A pack is unpacked once, by its digest."""
    is_url, named = source.startswith(("http://", "https://")), re.search(r"-([0-9a-f]{64})\.tar$", source)
    if is_url and not named:
        raise DatasetError(f"pack {source!r}: allowed are URLs that end in -SHA256.tar, as ragtune pack names a file")
    if not is_url and not Path(source).is_file():
        raise DatasetError(f"pack {source!r} does not exist")
    digest = named[1] if named and is_url else sha256_of(Path(source))
    folder = default_cache_dir() / "packs" / digest
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder.parent, prefix=".new-") as scratch:
            try:
                file = _fetched(source, Path(scratch, "pack.tar")) if is_url else Path(source)
                if named and sha256_of(file) != named[1]:
                    raise DatasetError("it was changed: its SHA-256 is not that of its name")
                content = _unpacked(file, Path(scratch))
            except (OSError, tarfile.TarError, ValueError, LookupError, TypeError, AttributeError) as error:
                raise DatasetError(f"cannot use pack {source!r}: {first_line(error)}") from None
            with suppress(OSError):  # another process has put its own there
                content.rename(folder)
    return str(next(folder.iterdir()))


def _fetched(url: str, file: Path) -> Path:
    from urllib.request import urlopen

    with urlopen(url, timeout=60) as answer, file.open("wb") as out:  # noqa: S310 - of HTTP
        shutil.copyfileobj(answer, out)
    return file


def _unpacked(file: Path, scratch: Path) -> Path:
    """A folder with the one that is named as the collection."""
    folder, named = scratch / "files", scratch / "content"
    with _Archive(file) as archive, tarfile.open(fileobj=archive, mode="r:") as tar:
        if sum(member.size for member in tar) > file.stat().st_size:
            raise DatasetError("it declares more bytes than it has")
        if large := [each.name for each in tar if each.name in ("LICENSE", META) and each.size > MOST_BYTES]:
            raise DatasetError(f"{large[0]} is larger than {MOST_BYTES:,} bytes")
        tar.extractall(folder, filter="data")  # which refuses what would lie outside of the folder
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if not path.is_dir()}
    if "LICENSE" not in found or not found["LICENSE"].read_bytes().strip():
        raise DatasetError("it has no LICENSE")
    meta = json.loads(found.pop(META).read_bytes())
    for name in sorted(found.keys() | meta["files"].keys()):
        if name not in found or found[name].is_symlink() or sha256_of(found[name]) != meta["files"].get(name):
            raise DatasetError(f"it was changed: {name} is not what its manifest declares")
    named.mkdir()
    folder.rename(named / Path(meta["name"]).name)
    return named
