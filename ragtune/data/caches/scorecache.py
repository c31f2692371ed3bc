"""A durable store of reranker scores, so that interrupted work is never paid for twice (rule C3)."""

from __future__ import annotations

from pathlib import Path

from ragtune.data.caches.sqlitecache import SqliteCache


class FigureCache(SqliteCache[float]):
    """Figures by content key, see :class:`ragtune.data.caches.sqlitecache.SqliteCache`.

    Each kind of figure has a file of its own, so that versions with and without one can read each other's others.

    Args:
        folder: folder of ``<noun>s.sqlite``, made on first use.
        noun: name of a figure.
        column: name of its column.
    """

    def __init__(self, folder: Path, noun: str, column: str) -> None:
        columns = f"key BLOB PRIMARY KEY, {column} REAL NOT NULL"
        super().__init__(folder / f"{noun}s.sqlite", noun, columns, "WITHOUT ROWID")


class ScoreCache(FigureCache):
    """Scores by content key.

    Args:
        folder: folder of ``scores.sqlite``, made on first use.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "score", "score")


class TimeCache(FigureCache):
    """Milliseconds by content key: what each score took when it was made, and how fast a model is.

    Args:
        folder: folder of ``times.sqlite``, made on first use.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "time", "ms")
