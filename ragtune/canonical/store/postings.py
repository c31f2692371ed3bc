"""The SQL of a collection's postings: which chunks hold a term, how often, and how long they are.

Every write adds a block for each of its terms; of what it deletes, it adds blocks of numbers that are gone. Blocks of
:data:`FANOUT` writes are joined to one, as many of those again, so that a term never has many; all are made anew where
more is gone than there.
"""

from __future__ import annotations

from collections.abc import Iterator

from ragtune.canonical.store.lexical import K1, B
from ragtune.canonical.store.ranking import RANGE_BITS, TF_BITS

FANOUT = 16
"""Writes whose blocks are joined."""

BUILT = 99
"""Level of blocks that were made from the whole collection; they are never joined."""

LENGTHS = ""
"""The term whose blocks hold the length of every number that was ever given out, and which no chunk has."""

_COLUMNS = "term, first, n, level, peak, average, content"
_SIZE = (
    "SELECT chunks::float8 AS n, greatest(terms, 1)::float8 / greatest(chunks, 1) AS average "
    "FROM ragtune.collections WHERE"
)


class PostingStatements:
    """SQL over the postings of a collection; values are parameters, but for our own numbers.

    Args:
        collection_id: the collection's key.
    """

    def __init__(self, collection_id: int) -> None:
        self.collection_id = int(collection_id)
        self._chunks = f"ragtune.chunks_{self.collection_id}"
        self._places = f"ragtune.places_{self.collection_id}"
        self._postings = f"ragtune.postings_{self.collection_id}"
        self._mine = f"collection_id = {self.collection_id}"

    def drop(self) -> list[bytes]:
        return [f"DROP TABLE IF EXISTS {table}".encode() for table in (self._places, self._postings)]

    def number(self) -> list[bytes]:
        """SQL that takes the postings away, and numbers all chunks anew."""
        numbered = (
            f"INSERT INTO {self._places} SELECT row_number() OVER (ORDER BY doc_id, chunk_index) - 1, doc_id, "
            f"chunk_index FROM {self._chunks}"
        )
        clear = [f"DELETE FROM {table}" for table in (self._postings, self._places)]
        return [sql.encode() for sql in (*clear, numbered, f"ANALYZE {self._places}")]

    def build(self, chunks: int) -> Iterator[tuple[int, bytes]]:
        """SQL that makes the postings of so many numbered chunks, a range of numbers at a time, each with its end."""
        size = 1 << RANGE_BITS
        for first in range(0, chunks, size):
            end = min(first + size, chunks)
            rows = (
                f"SELECT p.no, c.length, c.tsv FROM {self._places} p JOIN {self._chunks} c "
                f"USING (doc_id, chunk_index) WHERE p.no >= {first} AND p.no < {end}"
            )
            yield end, self._insert(rows, BUILT).encode()

    def done(self) -> list[bytes]:
        """SQL that says that all chunks have postings."""
        done = f"UPDATE ragtune.collections SET is_posted = true, places = chunks, writes = 0 WHERE {self._mine}"
        return [done.encode(), f"ANALYZE {self._postings}".encode()]

    def add(self) -> bytes:
        """SQL that adds chunks by ``doc_ids`` and ``chunk_indexes``, whose numbers begin at ``places``."""
        rows = (
            f"SELECT p.no, c.length, c.tsv FROM placed p JOIN {self._chunks} c "
            f"ON c.{self._mine} AND c.doc_id = p.doc_id AND c.chunk_index = p.chunk_index"
        )
        placed = (
            f"INSERT INTO {self._places} "
            "SELECT %(places)s::int + row_number() OVER (ORDER BY doc_id, chunk_index) - 1, doc_id, chunk_index "
            "FROM unnest(%(doc_ids)s::text[], %(chunk_indexes)s::int[]) new (doc_id, chunk_index) "
            "RETURNING no, doc_id, chunk_index"
        )
        return f"WITH placed AS ({placed}) {self._insert(rows, 0)}".encode()

    def remove(self, gone: str) -> str:
        """CTEs that take chunks out, whose ``doc_id``, ``chunk_index`` and ``tsv`` the CTE of that name returns."""
        left = (
            f"DELETE FROM {self._places} p USING {gone} g WHERE p.doc_id = g.doc_id AND p.chunk_index = g.chunk_index "
            "RETURNING p.no, g.tsv"
        )
        return (
            f"unplaced AS ({left}), unposted AS (INSERT INTO {self._postings} ({_COLUMNS}) "
            f"SELECT e.lexeme, min(no), -count(*), 0, 0, 1, string_agg(int4send({_place()}), ''::bytea ORDER BY no) "
            f"FROM unplaced, LATERAL unnest(tsv) e GROUP BY e.lexeme, no >> {RANGE_BITS})"
        )

    def count(self) -> bytes:
        """SQL that counts a write and the numbers that it gave out."""
        return (
            f"UPDATE ragtune.collections SET places = places + %s, writes = writes + 1 WHERE {self._mine} "
            "RETURNING writes"
        ).encode()

    def join(self) -> bytes:
        """SQL that joins the blocks of a level to blocks of the next.

        The highest average is materialized: where statistics know of no block of that level, a plan for a single one
        would find it anew for each of a hundred thousand.
        """
        return (
            f"WITH old AS (DELETE FROM {self._postings} WHERE level = %(level)s RETURNING {_COLUMNS}), "
            "top AS MATERIALIZED (SELECT max(average) AS average FROM old) "
            f"INSERT INTO {self._postings} ({_COLUMNS}) SELECT term, min(first), sum(n), %(level)s + 1, "
            "max(least(1.0, peak * top.average / old.average)), top.average, "
            "string_agg(content, ''::bytea ORDER BY first) FROM old, top "
            f"GROUP BY term, n < 0, first >> {RANGE_BITS}, top.average"
        ).encode()

    def read_blocks(self) -> bytes:
        """The collection's size with each block of the terms: the most that tf / (tf + norm) can be now, and content.

        The content is null where the term has more than ``most`` postings.
        """
        # The norm of a chunk has shrunk by no more than the average length has grown since.
        peak = "least(1.0, peak * greatest(1.0, size.average / p.average))"
        of_term = "sum(abs(p.n)) OVER (PARTITION BY p.term)"
        return (
            f"SELECT p.term, p.first, p.n, CASE WHEN p.term = '{LENGTHS}' OR {of_term} <= %(most)s THEN p.content END, "
            f"{peak}, size.n, size.average "
            f"FROM ({_SIZE} {self._mine}) size JOIN {self._postings} p ON p.term = ANY(%(terms)s) "
            "ORDER BY p.term, p.first"
        ).encode()

    def read_is_posted(self) -> bytes:
        return f"SELECT is_posted FROM ragtune.collections WHERE {self._mine}".encode()

    def matching(self, condition: str, with_terms: bool) -> bytes:
        """Numbers of chunks that a condition lets through, at most ``limit``; with terms, of those with ``any``."""
        terms = " AND tsv @@ %(any)s::tsquery" if with_terms else ""
        some = first_that_pass(self._chunks, "doc_id, chunk_index", f"{condition}{terms}", "%(limit)s")
        return (f"SELECT p.no FROM ({some}) c JOIN {self._places} p USING (doc_id, chunk_index) ORDER BY p.no").encode()

    def lookup(self, terms: int) -> bytes:
        """The tf of each term in chunks by ``nos``, in their order."""
        tf = ", ".join(f"ts_rank_cd('{{1,1,1,1}}', c.tsv, %(term{i})s::tsquery, 0)::float8" for i in range(terms))
        return (
            f"SELECT {tf} FROM unnest(%(nos)s::int[]) given (no) JOIN {self._places} p USING (no) "
            f"JOIN {self._chunks} c ON c.{self._mine} AND c.doc_id = p.doc_id AND c.chunk_index = p.chunk_index "
            "ORDER BY p.no"
        ).encode()

    def chosen(self, columns: str, condition: str) -> bytes:
        """The ``k`` best of given chunks that a condition lets through (rule D12)."""
        found = (
            "SELECT p.doc_id, p.chunk_index, given.score FROM "
            f"unnest(%(nos)s::int[], %(scores)s::float8[]) given (no, score) JOIN {self._places} p USING (no)"
        )
        best = "ORDER BY score DESC, doc_id, chunk_index LIMIT %(k)s"
        join = f"JOIN {self._chunks} c ON c.{self._mine} AND c.doc_id = top.doc_id AND c.chunk_index = top.chunk_index"
        if condition == "true":
            return f"SELECT {columns}, top.score FROM ({found} {best}) top {join}".encode()
        return (
            f"SELECT {columns}, top.score FROM ({found}) top {join} WHERE {condition} "
            "ORDER BY top.score DESC, c.doc_id, c.chunk_index LIMIT %(k)s"
        ).encode()

    def _insert(self, rows: str, level: int) -> str:
        tf = "cardinality(e.positions)"
        norm = f"({K1} * ({1.0 - B} + {B} * r.length / size.average))"
        held = f"SELECT e.lexeme, ({_place()}) + {tf}, {tf}::float8 / ({tf} + {norm}) FROM unnest(r.tsv) e"
        return (
            f"INSERT INTO {self._postings} ({_COLUMNS}) SELECT e.term, min(r.no), count(*), {level}, "
            "max(e.peak), size.average, string_agg(int4send(e.value), ''::bytea ORDER BY r.no) "
            f"FROM ({rows}) r, ({_SIZE} {self._mine}) size, "
            f"LATERAL ({held} UNION ALL SELECT '{LENGTHS}', r.length, 0.0) e (term, value, peak) "
            f"GROUP BY e.term, r.no >> {RANGE_BITS}, size.average"
        )


def first_that_pass(table: str, columns: str, condition: str, limit: str) -> str:
    """SQL of so many rows that a condition lets through, found by the plan that is best for all of them.

    A plan for the first few would read the table from its beginning, trusting that such rows are everywhere; where they
    lie at its end, it reads all of it. What is materialized is planned as a whole and read only as far as is asked for.
    """
    return (
        f"WITH passing AS MATERIALIZED (SELECT {columns} FROM {table} WHERE {condition}) "
        f"SELECT * FROM passing LIMIT {limit}"
    )


def _place() -> str:
    return f"(no & {(1 << RANGE_BITS) - 1}) << {TF_BITS}"
