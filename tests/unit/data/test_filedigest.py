"""Content hashes: of what the file holds now, and not read again while it stays as it is."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from ragtune.data import filedigest
from ragtune.data.filedigest import file_digests

LARGE = 2**20


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that were read, in order."""
    names: list[str] = []
    digest = hashlib.file_digest
    monkeypatch.setattr(
        filedigest.hashlib, "file_digest", lambda f, how: (names.append(Path(f.name).name), digest(f, how))[1]
    )
    return names


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filedigest, "_SETTLED_NS", -(10**18))


@pytest.mark.usefixtures("no_waiting")
def test_a_large_file_is_read_once_and_again_when_it_changed(tmp_path: Path, read: list[str]) -> None:
    large, small = tmp_path / "large", tmp_path / "small"
    large.write_bytes(b"a" * LARGE)
    small.write_bytes(b"s")
    expected = [hashlib.sha256(b"a" * LARGE).hexdigest(), hashlib.sha256(b"s").hexdigest()]
    assert file_digests([large, small]) == expected
    assert file_digests([large, small]) == expected
    assert read == ["large", "small", "small"]
    stamp = large.stat()
    while large.stat().st_ctime_ns == stamp.st_ctime_ns:  # within one tick of the file system's clock
        large.write_bytes(b"b" * LARGE)
        os.utime(large, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))  # as `cp -p` and rsync leave it
    assert file_digests([large]) == [hashlib.sha256(b"b" * LARGE).hexdigest()]


def test_a_file_that_just_changed_is_not_taken_on_trust(tmp_path: Path, read: list[str]) -> None:
    (tmp_path / "large").write_bytes(b"a" * LARGE)
    file_digests([tmp_path / "large"])
    file_digests([tmp_path / "large"])
    assert read == ["large", "large"]


@pytest.mark.usefixtures("no_waiting")
def test_a_cache_that_cannot_be_used_costs_time_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("RAGTUNE_CACHE", str(tmp_path / "file"))
    (tmp_path / "large").write_bytes(b"a" * LARGE)
    assert file_digests([tmp_path / "large"]) == [hashlib.sha256(b"a" * LARGE).hexdigest()]
    assert "cannot keep 1 digests" in caplog.text
