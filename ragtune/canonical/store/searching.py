"""Lexical search of a PostgreSQL collection: the bounded ranking over its postings, in one snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragtune.canonical.store.lexical import quote
from ragtune.canonical.store.postings import LENGTHS
from ragtune.canonical.store.ranking import AT_ONCE, Block, Bound, Postings, Ranking, decode, decode_lengths
from ragtune.canonical.store.statements import NO_FILTER, ROW, Statements
from ragtune.core.arrays import FloatArray

_SCORE_SCALE = 1e6  # the server rounds lexical scores to 6 decimals
_ALL = 2**62
_RARE = 5  # postings of terms for which the index on tsvectors is asked, in chunks that are scored one by one
_DEEPER = 8  # how many times more ranks are tried where a filter lets too few through


class LexicalSearch:
    """Searches one collection by term.

    Args:
        sql: statements of the collection.
        exact_below: chunks that a filter leaves are scored one by one while they are so many at most.
    """

    def __init__(self, sql: Statements, exact_below: int) -> None:
        self._sql = sql
        self._exact_below = exact_below
        self._is_posted = False  # becomes true for good

    def search(
        self, connection: Any, terms: Sequence[str], k: int, condition: str, values: Mapping[str, Any]
    ) -> list[Any]:
        """Rows of the ``k`` best chunks with any of the terms, each with its score last.

        Args:
            connection: a connection in autocommit mode.
            terms: distinct terms, at least one.
            k: number of rows, >= 1.
            condition: which rows may be found, as SQL.
            values: its parameters.
        """
        if not self._has_postings(connection):
            return self._search_tsvectors(connection, terms, k, condition, values)
        with connection.transaction():
            # All statements of such a search must see the same state.
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            ranking = self._ranking(connection, terms)
            return self._chosen(connection, ranking, terms, k, condition, values)

    def _chosen(
        self,
        connection: Any,
        ranking: Ranking,
        terms: Sequence[str],
        k: int,
        condition: str,
        values: Mapping[str, Any],
    ) -> list[Any]:
        sql = self._sql.postings.chosen(ROW, condition)
        if condition != NO_FILTER:
            kept = self._matching(connection, ranking, terms, condition, values)
            if kept is not None:
                return _rows(connection, sql, ranking.among(kept, k), k, values)
        depth = k if condition == NO_FILTER else _DEEPER * k
        while True:
            found = ranking.best(depth)
            rows = _rows(connection, sql, found, k, values)
            if len(rows) == k or len(found[0]) < depth:
                return rows
            depth *= _DEEPER

    def _matching(
        self,
        connection: Any,
        ranking: Ranking,
        terms: Sequence[str],
        condition: str,
        values: Mapping[str, Any],
    ) -> NDArray[np.int64] | None:
        """Numbers of the chunks that a filter leaves, with rare terms of those that hold one; None if many."""
        is_rare = ranking.size <= _RARE * self._exact_below
        given: dict[str, Any] = {"any": _any_of(terms)} if is_rare else {}
        given |= {"limit": self._exact_below + 1, **values}
        rows = fetch_all(connection, self._sql.postings.matching(condition, is_rare), given)
        return None if len(rows) > self._exact_below else np.array([no for (no,) in rows], dtype=np.int64)

    def _ranking(self, connection: Any, terms: Sequence[str]) -> Ranking:
        blocks = self._blocks(connection, [*terms, LENGTHS], AT_ONCE // len(terms))
        lengths = blocks.pop(LENGTHS, [])
        chunks, average = lengths[0][-2:] if lengths else (0, 1.0)
        bounds = [_bound(term, blocks[term]) for term in terms if term in blocks]

        def read(wanted: Sequence[str]) -> Mapping[str, Postings]:
            return {term: decode(_stored(rows)) for term, rows in self._blocks(connection, wanted, _ALL).items()}

        def lookup(wanted: Sequence[str], nos: NDArray[np.int64]) -> FloatArray:
            return self._lookup(connection, wanted, nos)

        return Ranking(
            int(chunks), average, decode_lengths(_stored(lengths)), [one for one in bounds if one.df], read, lookup
        )

    def _blocks(self, connection: Any, terms: Sequence[str], most: int) -> dict[str, list[Any]]:
        blocks: dict[str, list[Any]] = {}
        for row in fetch_all(connection, self._sql.postings.read_blocks(), {"terms": list(terms), "most": most}):
            blocks.setdefault(row[0], []).append(row)
        return blocks

    def _lookup(self, connection: Any, terms: Sequence[str], nos: NDArray[np.int64]) -> FloatArray:
        values = {f"term{place}": quote(term) for place, term in enumerate(terms)}
        rows = fetch_all(connection, self._sql.postings.lookup(len(terms)), {**values, "nos": nos.tolist()})
        return np.array(rows, dtype=np.float64).reshape(len(nos), len(terms))

    def _search_tsvectors(
        self, connection: Any, terms: Sequence[str], k: int, condition: str, values: Mapping[str, Any]
    ) -> list[Any]:
        """Every row with a term is scored by the server."""
        quoted = {f"term{place}": quote(term) for place, term in enumerate(terms)}
        sql = self._sql.lexical(condition, len(terms))
        rows = fetch_all(connection, sql, {**quoted, "any": _any_of(terms), "k": k, **values})
        return [(*row[:-1], row[-1] / _SCORE_SCALE) for row in rows]

    def _has_postings(self, connection: Any) -> bool:
        if not self._is_posted:
            found = connection.execute(self._sql.postings.read_is_posted()).fetchone()
            self._is_posted = found is not None and found[0]
        return self._is_posted


def fetch_all(connection: Any, sql: bytes, values: Any) -> list[Any]:
    """All rows of a query."""
    rows: list[Any] = connection.execute(sql, values, binary=True).fetchall()
    return rows


def _rows(
    connection: Any, sql: bytes, found: tuple[NDArray[np.int64], FloatArray], k: int, values: Mapping[str, Any]
) -> list[Any]:
    nos, scores = found
    return fetch_all(connection, sql, {"nos": nos.tolist(), "scores": scores.tolist(), "k": k, **values})


def _bound(term: str, rows: Sequence[Any]) -> Bound:
    is_there = all(row[3] is not None for row in rows)
    return Bound(
        term, sum(row[2] for row in rows), max(row[4] for row in rows), decode(_stored(rows)) if is_there else None
    )


def _stored(rows: Sequence[Any]) -> list[Block]:
    return [Block(*row[1:4]) for row in rows]


def _any_of(terms: Sequence[str]) -> str:
    return " | ".join(map(quote, terms))
