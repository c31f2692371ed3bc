"""Content hashes: of what the file holds now, and not read again while it stays as it is."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from ragtune.data.caches import diskcache as filedigest
from ragtune.data.caches.diskcache import file_digests

LARGE = 2**20


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []
    digest = hashlib.file_digest
    monkeypatch.setattr(hashlib, "file_digest", lambda f, how: (names.append(Path(f.name).name), digest(f, how))[1])
    return names


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filedigest, "_SETTLED_NS", -(10**18))


@pytest.mark.usefixtures("no_waiting")
def test_a_file_is_read_once_a_process_and_a_large_one_once_for_all(
    tmp_path: Path, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    large, small = tmp_path / "large", tmp_path / "small"
    large.write_bytes(b"a" * LARGE)
    small.write_bytes(b"s")
    expected = [hashlib.sha256(b"a" * LARGE).hexdigest(), hashlib.sha256(b"s").hexdigest()]
    assert file_digests([large, small]) == expected
    assert file_digests([large, small]) == expected
    assert read == ["large", "small"]
    monkeypatch.setattr(filedigest, "_settled", {})  # another process
    assert file_digests([large, small]) == expected
    assert read == ["large", "small", "small"]


@pytest.mark.usefixtures("no_waiting")
@pytest.mark.parametrize("size", [1, LARGE])
def test_a_file_is_read_again_when_it_changed(tmp_path: Path, size: int) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"a" * size)
    file_digests([file])
    stamp = file.stat()
    while file.stat().st_ctime_ns == stamp.st_ctime_ns:  # within one tick of the file system's clock
        file.write_bytes(b"b" * size)
        os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))  # as `cp -p` and rsync leave it
    assert file_digests([file]) == [hashlib.sha256(b"b" * size).hexdigest()]


@pytest.mark.parametrize("size", [1, LARGE])
def test_a_file_that_just_changed_is_not_taken_on_trust(tmp_path: Path, read: list[str], size: int) -> None:
    (tmp_path / "file").write_bytes(b"a" * size)
    file_digests([tmp_path / "file"])
    file_digests([tmp_path / "file"])
    assert read == ["file", "file"]


@pytest.mark.usefixtures("no_waiting")
def test_a_cache_that_cannot_be_used_costs_time_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("RAGTUNE_CACHE", str(tmp_path / "file"))
    (tmp_path / "large").write_bytes(b"a" * LARGE)
    assert file_digests([tmp_path / "large"]) == [hashlib.sha256(b"a" * LARGE).hexdigest()]
    assert "cannot keep 1 digests" in caplog.text
