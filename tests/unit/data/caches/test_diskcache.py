import logging
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from patience import HANG_S

from ragtune.core.errors import ConfigError
from ragtune.data.caches.diskcache import DiskCache, resolve_cache_dir
from ragtune.data.caches.sqlitecache import SqliteCache


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


A, B = SqliteCache.key("model", "query", "a"), SqliteCache.key("model", "query", "b")


def scores(folder: Path) -> SqliteCache[float]:
    return SqliteCache(folder / "scores.sqlite", "score", "score REAL NOT NULL")


def test_asks_for_more_keys_than_one_statement_takes(tmp_path: Path) -> None:
    many = {SqliteCache.key(str(i)): i / 3000 for i in range(3000)}
    cache = scores(tmp_path)
    cache.put(many)
    assert cache.get(list(many)) == many


def test_keys_depend_on_every_part_and_on_where_parts_end() -> None:
    keys = [SqliteCache.key(*parts) for parts in (["ab", "c"], ["a", "bc"], ["abc"], ["ab", "c", ""])]
    assert len(set(keys)) == 4


def test_scores_survive_a_kill(tmp_path: Path) -> None:
    code = (
        "import sys, os, signal, pathlib; from ragtune.data.caches.sqlitecache import SqliteCache\n"
        "cache = SqliteCache(pathlib.Path(sys.argv[1]) / 'scores.sqlite', 'score', 'score REAL NOT NULL')\n"
        "cache.put({SqliteCache.key('x'): 0.25})\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], timeout=HANG_S)
    assert done.returncode == -signal.SIGKILL
    assert scores(tmp_path).get([SqliteCache.key("x")]) == {SqliteCache.key("x"): 0.25}


def test_a_file_that_is_no_database_is_moved_aside_and_said_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache = scores(tmp_path)
    cache.path.write_bytes(b"this is not a database, and long enough to look like a header" * 20)
    with caplog.at_level(logging.WARNING):
        assert cache.get([A]) == {}
    assert "corrupt score cache" in caplog.text
    cache.put({A: 0.5})
    assert cache.get([A]) == {A: 0.5}
    assert (tmp_path / "scores.sqlite.corrupt").exists()


def test_an_unusable_folder_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ConfigError, match=r"cannot be used .*cache_dir=null"):
        scores(tmp_path / "file").get([A])


def test_scores_that_cannot_be_written_are_warned_about(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cache = scores(tmp_path)
    cache.get([A])
    cache._connection.execute("PRAGMA query_only=ON")
    cache.put({A: 0.5})
    assert "paid for again" in caplog.text
