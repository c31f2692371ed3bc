from __future__ import annotations

import logging
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from patience import HANG_S

from ragtune.core.errors import ConfigError
from ragtune.data.caches.sqlitecache import SqliteCache

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
