from __future__ import annotations

import logging
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from patience import HANG_S

from ragtune.core.errors import ConfigError
from ragtune.data.caches.sqlitecache import SqliteCache
from ragtune.llm.transport import map_all

A, B = SqliteCache.key("model", "query", "a"), SqliteCache.key("model", "query", "b")


def scores(folder: Path) -> SqliteCache[float]:
    return SqliteCache(folder / "scores.sqlite", "score", "score REAL NOT NULL")


def test_knows_what_was_put_exactly(tmp_path: Path) -> None:
    scores(tmp_path).put({A: 0.1 + 0.2})
    assert scores(tmp_path).get([A, B]) == {A: 0.1 + 0.2}


def test_asks_for_more_keys_than_one_statement_takes(tmp_path: Path) -> None:
    many = {SqliteCache.key(str(i)): i / 3000 for i in range(3000)}
    cache = scores(tmp_path)
    cache.put(many)
    assert cache.get(list(many)) == many


def test_threads_that_share_a_cache_take_turns(tmp_path: Path) -> None:
    cache = scores(tmp_path)

    def work(thread: int) -> dict[bytes, float]:
        keys = [bytes([thread]) + i.to_bytes(2, "big") for i in range(2000)]
        for start in range(0, 2000, 500):
            cache.put(dict.fromkeys(keys[start : start + 500], 0.5))
        return cache.get(keys)

    assert [len(found) for found in map_all(work, range(4), 4)] == [2000] * 4


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


def test_a_damaged_page_is_noticed_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cache = scores(tmp_path)
    many = {SqliteCache.key(str(i)): 0.5 for i in range(2000)}
    cache.put(many)
    cache.close()
    damaged = bytearray(cache.path.read_bytes())
    damaged[4096:] = b"\xff" * (len(damaged) - 4096)
    cache.path.write_bytes(damaged)
    assert cache.get(list(many)) == {}
    assert "corrupt score cache" in caplog.text


def test_an_unusable_folder_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ConfigError, match=r"cannot be used .*cache_dir=null"):
        scores(tmp_path / "file").get([A])


def test_scores_that_cannot_be_written_are_warned_about(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cache = scores(tmp_path)
    cache.get([A])
    assert cache._connection is not None
    cache._connection.execute("PRAGMA query_only=ON")
    cache.put({A: 0.5})
    assert "paid for again" in caplog.text


def test_travels_to_another_process_without_its_connection(tmp_path: Path) -> None:
    cache = scores(tmp_path)
    cache.put({A: 0.5})
    assert pickle.loads(pickle.dumps(cache)).get([A]) == {A: 0.5}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_a_forked_child_opens_a_connection_of_its_own(tmp_path: Path) -> None:
    cache = scores(tmp_path)
    cache.put({A: 0.5})
    parent = cache._connection
    child = os.fork()
    if child == 0:
        cache.put({B: 0.75})
        os._exit(0 if cache._connection is not parent else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert cache.get([A, B]) == {A: 0.5, B: 0.75}
