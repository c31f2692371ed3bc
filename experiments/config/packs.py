"""Collections in one file of ``ragtune pack``: fetched from a path or URL, checked, and unpacked into the cache."""

from __future__ import annotations

import json
import re
import shutil
import tarfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, cast

from ragtune.core.errors import DatasetError
from ragtune.core.plain import first_line
from ragtune.data.caches.diskcache import default_cache_dir, file_digests, sha256_of

META = "pt_meta.json"
"""The manifest of a pack, where PyTerrier's artifacts have theirs: ``files`` has the SHA-256 of each other member."""


@cache
def unpacked(source: str) -> Path:
    """Return the folder with the content of a pack, in BEIR's layout. A pack is unpacked once, by its digest.

    Args:
        source: a file, or the URL of one whose name ends in its digest, as ``ragtune pack`` names it.

    Raises:
        DatasetError: if the pack is missing, or is not what its name or its manifest declares.
    """
    is_url, named = source.startswith(("http://", "https://")), re.search(r"-([0-9a-f]{64})\.tar$", source)
    if is_url and not named:
        raise DatasetError(f"pack {source!r}: allowed are URLs that end in -SHA256.tar, as ragtune pack names a file")
    if not is_url and not Path(source).is_file():
        raise DatasetError(f"pack {source!r} does not exist")
    digest = named[1] if named and is_url else file_digests([Path(source)])[0]
    folder = default_cache_dir() / "packs" / digest
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder.parent, prefix=".new-") as scratch:
            file, content = Path(scratch, "pack.tar") if is_url else Path(source), Path(scratch, "content")
            try:
                if is_url:
                    _fetch(source, file)
                if named and sha256_of(file) != named[1]:
                    raise DatasetError("it was changed: its SHA-256 is not that of its name")
                _unpack(file, content)
            except (OSError, tarfile.TarError, ValueError, LookupError, TypeError, AttributeError) as error:
                raise DatasetError(f"cannot use pack {source!r}: {first_line(error)}") from None
            with suppress(OSError):  # another process has put its own there
                content.rename(folder)
    return next(folder.iterdir())


def scores_in(folder: Path) -> str:
    """Return the path of a pack's score table."""
    return str(next(file for file in sorted(folder.glob("scores.*")) if not file.name.endswith(".manifest.json")))


def _fetch(url: str, file: Path) -> None:
    from urllib.request import urlopen

    with urlopen(url, timeout=60) as answer, file.open("wb") as out:  # noqa: S310 - of HTTP
        shutil.copyfileobj(answer, out)


def _unpack(file: Path, folder: Path) -> None:
    with tarfile.open(file, "r:") as tar:
        members = tar.getmembers()
        if sum(member.size for member in members) > file.stat().st_size:
            raise DatasetError("it declares more bytes than it has")
        meta = json.load(_content(tar, META))
        target, digests = folder / Path(meta["name"]).name, {META: None, **meta["files"]}
        for member in members:
            path = target / member.name
            if not member.isfile() or not path.resolve().is_relative_to(target.resolve()) or member.name not in digests:
                raise DatasetError(f"its member {member.name!r} is no file of its manifest")
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as out:
                shutil.copyfileobj(_content(tar, member), out)
            if digests[member.name] not in (None, sha256_of(path)):
                raise DatasetError(f"it was changed: {member.name} has not the SHA-256 of the manifest")
        if missing := digests.keys() - {member.name for member in members}:
            raise DatasetError(f"it lacks {min(missing)}")


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo | str) -> IO[bytes]:
    return cast(IO[bytes], tar.extractfile(member))
