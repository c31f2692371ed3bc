"""Score caches that are cut, garbled or foreign: no error, no traceback, and never a wrong score."""

import json
import logging
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ragtune.data.caches.sqlitecache import SqliteCache

DAMAGES = 300
KEYS = [SqliteCache.key("model", "query", str(i)) for i in range(900)]


def score_cache(folder: Path) -> SqliteCache[float]:
    return SqliteCache(folder / "scores.sqlite", "score", "score REAL NOT NULL")


KINDS: dict[str, tuple[Callable[[Path], SqliteCache[Any]], Callable[[int], Any]]] = {
    "score": (score_cache, lambda i: i / 997),
    "text": (
        lambda folder: SqliteCache(folder / "answers.sqlite", "answer", "value TEXT NOT NULL"),
        lambda i: json.dumps({"answer": "é" * (i % 50), "tokens": i}),
    ),
}
"""As scores are kept, and as a language model's answers are."""


def _cut(data: bytes, rng: Random) -> bytes:
    return data[: rng.randrange(len(data))]


def _garble(data: bytes, rng: Random) -> bytes:
    start = rng.randrange(len(data))
    length = rng.choice([1, 2, 8, 100, 5000])
    return data[:start] + rng.randbytes(length) + data[start + length :]


def _replace(data: bytes, rng: Random) -> bytes:
    return rng.choice([b"", b"\0" * 100, b"SQLite format 3\0", b"dear diary " * 1000, rng.randbytes(20000)])


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_cache_never_gives_a_wrong_value(
    tmp_path: Path, rng: Random, tally: Counter[str], caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    make, value = KINDS[kind]
    values = {key: value(i) for i, key in enumerate(KEYS)}
    whole = make(tmp_path / "whole")
    whole.put(values)
    whole.close()
    data = whole.path.read_bytes()
    caplog.set_level(logging.WARNING)
    for number in range(DAMAGES):
        cache = make(tmp_path / str(number))
        cache.path.parent.mkdir()
        cache.path.write_bytes(rng.choice([_cut, _garble, _replace])(data, rng))
        if rng.random() < 0.2:
            cache.path.with_name(f"{cache.path.name}-wal").write_bytes(rng.randbytes(5000))
        found = cache.get(KEYS)
        assert all(values[key] == known for key, known in found.items())
        cache.put(values)
        found = cache.get(KEYS)  # a damaged tree may hide a value, which is asked for again
        assert all(values[key] == known for key, known in found.items())
        cache.close()
        tally[f"damaged {kind} caches" + (", moved aside" if list(cache.path.parent.glob("*.corrupt")) else "")] += 1


@pytest.mark.parametrize("table", ["recipes (name TEXT)", "scores (name TEXT)", "scores (key BLOB PRIMARY KEY)"])
def test_a_foreign_database_in_the_place_of_the_cache_is_not_written_to(
    tmp_path: Path, tally: Counter[str], table: str
) -> None:
    cache = score_cache(tmp_path)
    with closing(sqlite3.connect(cache.path)) as db, db:
        db.execute(f"CREATE TABLE {table}")
    scores = {key: i / 997 for i, key in enumerate(KEYS)}
    cache.put(scores)
    assert cache.get(KEYS) == scores
    tally["foreign score caches"] += 1
