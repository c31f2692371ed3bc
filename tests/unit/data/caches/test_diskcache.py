from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragtune.data.caches.diskcache import DiskCache, resolve_cache_dir


class Book:
    def __init__(self, cache: DiskCache) -> None:
        self.cache = cache
        self.built = 0

    def fetch(self, key: str = "key") -> str:
        return self.cache.fetch(key, self._build, self._save, lambda folder: (folder / "text").read_text())

    def _build(self) -> str:
        self.built += 1
        return "value"

    def _save(self, value: str, folder: Path) -> None:
        (folder / "text").write_text(value)


@pytest.fixture
def book(tmp_path: Path) -> Book:
    return Book(DiskCache("kind", tmp_path))


@pytest.fixture
def entry(book: Book) -> Iterator[Path]:
    book.fetch()
    path = book.cache.path("key")
    assert path is not None
    yield path
    assert book.fetch() == "value"
    assert (path / "text").read_text() == "value"


@pytest.mark.parametrize("damage", ["truncated", "missing", "bad_manifest", "a_file"])
def test_a_damaged_entry_is_rebuilt_and_said_so(
    book: Book, entry: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    if damage == "truncated":
        (entry / "text").write_text("val")
    elif damage == "missing":
        (entry / "text").unlink()
    elif damage == "bad_manifest":
        (entry / "manifest.json").write_text("{")
    else:
        for file in entry.iterdir():
            file.unlink()
        entry.rmdir()
        entry.write_text("not a folder")
    with caplog.at_level(logging.WARNING):
        assert book.fetch() == "value"
    assert book.built == 2
    assert "corrupt cache entry" in caplog.text
    assert "rebuilding" in caplog.text
    caplog.clear()
    assert book.fetch() == "value"
    assert book.built == 2
    assert not caplog.records


def test_a_folder_that_cannot_be_made_costs_no_result(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("in the way")
    book = Book(DiskCache("kind", tmp_path / "file"))
    assert book.fetch() == "value"
    assert "going on without it" in caplog.text


def test_an_interrupted_write_leaves_no_entry(tmp_path: Path) -> None:
    cache = DiskCache("kind", tmp_path)

    def interrupted(value: str, folder: Path) -> None:
        (folder / "text").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.fetch("key", lambda: "value", interrupted, lambda folder: "half")
    path = cache.path("key")
    assert path is not None
    assert not path.exists()


def test_the_default_folder_honours_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RAGTUNE_CACHE", str(tmp_path / "own"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert resolve_cache_dir("auto") == tmp_path / "own"
    monkeypatch.delenv("RAGTUNE_CACHE")
    assert resolve_cache_dir("auto") == tmp_path / "xdg" / "ragtune"
    assert resolve_cache_dir(tmp_path) == tmp_path
    assert resolve_cache_dir(None) is None


def test_a_value_that_stays_on_disk_is_written_once_and_none_where_it_cannot_be(tmp_path: Path) -> None:
    written: list[Path] = []

    def write(folder: Path) -> None:
        written.append(folder)
        (folder / "text").write_text("value")

    for cache, found in ((DiskCache("kind", tmp_path), "value"), (DiskCache("kind", None), None)):
        for _ in range(2):
            assert cache.written("key", write, lambda folder: (folder / "text").read_text()) == found
    assert len(written) == 1
    (tmp_path / "file").write_text("in the way")
    assert DiskCache("kind", tmp_path / "file").written("key", write, lambda _: "value") is None
