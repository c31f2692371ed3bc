"""Score caches that are cut, garbled or foreign: no error, no traceback, and never a wrong score."""

from __future__ import annotations

import logging
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from ragtune.core.scorecache import ScoreCache

DAMAGES = 400
SCORES = {ScoreCache.key("model", "query", str(i)): i / 997 for i in range(900)}


def _cut(data: bytes, rng: Random) -> bytes:
    return data[: rng.randrange(len(data))]


def _garble(data: bytes, rng: Random) -> bytes:
    start = rng.randrange(len(data))
    length = rng.choice([1, 2, 8, 100, 5000])
    return data[:start] + rng.randbytes(length) + data[start + length :]


def _flip(data: bytes, rng: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice([1, 10, 100])):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _zero(data: bytes, rng: Random) -> bytes:
    page = rng.randrange(len(data) // 4096) * 4096
    return data[:page] + bytes(4096) + data[page + 4096 :]


def _shift(data: bytes, rng: Random) -> bytes:
    start = rng.randrange(len(data))
    return data[:start] + data[start + rng.randint(1, 5000) :]


def _replace(data: bytes, rng: Random) -> bytes:
    return rng.choice([b"", b"\0" * 100, b"SQLite format 3\0", b"dear diary " * 1000, rng.randbytes(20000)])


def test_a_damaged_score_cache_never_gives_a_wrong_score(
    tmp_path: Path, rng: Random, tally: Counter[str], caplog: pytest.LogCaptureFixture
) -> None:
    whole = ScoreCache(tmp_path / "whole")
    whole.put(SCORES)
    whole.close()
    data = whole.path.read_bytes()
    caplog.set_level(logging.WARNING)
    for number in range(DAMAGES):
        cache = ScoreCache(tmp_path / str(number))
        cache.path.parent.mkdir()
        cache.path.write_bytes(rng.choice([_cut, _garble, _flip, _zero, _shift, _replace])(data, rng))
        if rng.random() < 0.2:
            cache.path.with_name("scores.sqlite-wal").write_bytes(rng.randbytes(5000))
        found = cache.get(list(SCORES))
        assert all(SCORES[key] == score for key, score in found.items())
        cache.put(SCORES)
        found = cache.get(list(SCORES))  # a damaged tree may hide a score, which is asked for again
        assert all(SCORES[key] == score for key, score in found.items())
        cache.close()
        tally["damaged score caches" + (", moved aside" if list(cache.path.parent.glob("*.corrupt")) else "")] += 1


@pytest.mark.parametrize("table", ["recipes (name TEXT)", "scores (name TEXT)", "scores (key BLOB PRIMARY KEY)"])
def test_a_foreign_database_in_the_place_of_the_cache_is_not_written_to(
    tmp_path: Path, tally: Counter[str], table: str
) -> None:
    cache = ScoreCache(tmp_path)
    with closing(sqlite3.connect(cache.path)) as db, db:
        db.execute(f"CREATE TABLE {table}")
    cache.put(SCORES)
    assert cache.get(list(SCORES)) == SCORES
    tally["foreign score caches"] += 1
