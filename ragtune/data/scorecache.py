"""A durable store of reranker scores, so that interrupted work is never paid for twice (rule C3)."""

from __future__ import annotations

from pathlib import Path

from ragtune.data.sqlitecache import SqliteCache


class ScoreCache(SqliteCache[float]):
    """Scores by content key, see :class:`ragtune.data.sqlitecache.SqliteCache`.

    Args:
        folder: folder of ``scores.sqlite``, made on first use.
    """

    def __init__(self, folder: Path) -> None:
        columns = "key BLOB PRIMARY KEY, score REAL NOT NULL"
        super().__init__(folder / "scores.sqlite", "score", columns, "WITHOUT ROWID")


class TimeCache(SqliteCache[float]):
    """Milliseconds by content key: what each score took when it was made, and how fast a model is.

    The times have a file of their own, so that versions with and without them can read each other's scores.

    Args:
        folder: folder of ``times.sqlite``, made on first use.
    """

    def __init__(self, folder: Path) -> None:
        columns = "key BLOB PRIMARY KEY, ms REAL NOT NULL"
        super().__init__(folder / "times.sqlite", "time", columns, "WITHOUT ROWID")
