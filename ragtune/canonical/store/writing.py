"""Writes to a collection: whole documents, one transaction a call, one writer at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ragtune.canonical.permit import current
from ragtune.canonical.store.connections import MissingTableError
from ragtune.canonical.store.lexical import tsvector_literal
from ragtune.canonical.store.postings import FANOUT
from ragtune.canonical.store.rows import Row, dump_json, rows_digest, shared_metadata
from ragtune.canonical.store.statements import COLUMN_TYPES, Statements
from ragtune.canonical.types import UpsertCounts

_MOST_AT_ONCE = 50_000  # chunks whose postings are made within a request's time
_SPARE_PLACES = 1000  # numbers that may be gone in a collection of any size


@dataclass(frozen=True)
class IndexPolicy:
    """When a collection gets its secondary indexes, and with what memory.

    Attributes:
        above: number of chunks beyond which a collection is indexed.
        maintenance_work_mem: memory of an index build, in PostgreSQL's notation.
    """

    above: int
    maintenance_work_mem: str


@dataclass(frozen=True)
class _Changes:
    """What has to be done to make documents consist of given rows."""

    counts: UpsertCounts
    new_documents: int
    touched: dict[str, list[Row]]
    stale: list[tuple[str, int]]
    fresh: list[Row]


class CollectionState(NamedTuple):
    """Chunks of a collection, whether it has indexes and postings, and how many numbers these have given out."""

    chunks: int
    is_indexed: bool
    is_posted: bool
    places: int


def lock_collection(connection: Any, sql: Statements) -> CollectionState:
    """What the collection is like; no other writer until the transaction ends."""
    found = connection.execute(sql.lock()).fetchone()
    if found is None:
        raise MissingTableError(f"collection {sql.collection_id} is no longer there")
    return CollectionState(*found)


def touch_one_collection(connection: Any) -> None:
    """Keep what checks the references to deleted documents from locking all collections, until the transaction ends.

    PostgreSQL now and then tries a plan for any collection, which locks them all: a lock somebody else may hold, and
    of some thousand collections more locks than there are.
    """
    _set_local(connection, "plan_cache_mode", "force_custom_plan")


def write_documents(
    connection: Any, sql: Statements, documents: Mapping[str, Sequence[Row]], policy: IndexPolicy | None
) -> UpsertCounts:
    """Make the documents consist of exactly these rows, in one transaction.

    Args:
        connection: a connection in autocommit mode.
        sql: SQL statements of the collection.
        documents: rows by document, with documents ordered by code point.
        policy: when to build indexes; None leaves a collection without indexes as it is.
    """
    with connection.transaction():
        state = lock_collection(connection, sql)
        changes = _compare(connection, sql, documents)
        terms = _apply(connection, sql, changes, state)
        growth = changes.counts.inserted - changes.counts.deleted
        connection.execute(sql.count(), (changes.new_documents, growth, terms))
        if state.is_posted:
            _post(connection, sql, changes, state)
        after = state._replace(chunks=state.chunks + growth, places=state.places + len(changes.fresh))
        if policy is not None:
            _complete(connection, sql, policy, after, _MOST_AT_ONCE)
        current().commit()
    return changes.counts


def build_indexes(connection: Any, sql: Statements, policy: IndexPolicy) -> None:
    """Build the postings if there are none or most of them are gone, and the indexes if the collection is large."""
    with connection.transaction():
        _complete(connection, sql, policy, lock_collection(connection, sql))


def _complete(
    connection: Any, sql: Statements, policy: IndexPolicy, state: CollectionState, most: int | None = None
) -> None:
    """Build what the collection lacks; of more chunks than ``most``, no postings, which take too long for a request."""
    is_stale = state.places > 2 * state.chunks + _SPARE_PLACES
    if (not state.is_posted or is_stale) and (most is None or state.chunks <= most):
        for _ in make_postings(connection, sql, policy, state.chunks):
            pass
    if not state.is_indexed and state.chunks > policy.above:
        _create_indexes(connection, sql, policy)


def make_postings(connection: Any, sql: Statements, policy: IndexPolicy, chunks: int) -> Iterator[int]:
    """Make the postings of all chunks anew, a range of numbers at a time; yields how many chunks have them."""
    for name in ("maintenance_work_mem", "work_mem"):
        _set_local(connection, name, policy.maintenance_work_mem)
    _make_index(connection, sql.create_postings())
    for statement in sql.postings.number():
        connection.execute(statement)
    for end, statement in sql.postings.build(chunks):
        connection.execute(statement)
        yield end
    for statement in sql.postings.done():
        connection.execute(statement)


def _post(connection: Any, sql: Statements, changes: _Changes, state: CollectionState) -> None:
    """Add the fresh rows to the postings, and join blocks when there are many."""
    if not changes.fresh and not changes.stale:
        return
    keys = {
        "doc_ids": [row.chunk.doc_id for row in changes.fresh],
        "chunk_indexes": [row.chunk.chunk_index for row in changes.fresh],
    }
    connection.execute(sql.postings.add(), {**keys, "places": state.places})
    count_write(connection, sql, len(changes.fresh))


def count_write(connection: Any, sql: Statements, places: int) -> None:
    """Count a write to the postings that gave out so many numbers, and join blocks when there are many."""
    (writes,) = connection.execute(sql.postings.count(), (places,)).fetchone()
    level = 0
    while writes % FANOUT ** (level + 1) == 0:
        connection.execute(sql.postings.join(), {"level": level})
        level += 1


def _compare(connection: Any, sql: Statements, documents: Mapping[str, Sequence[Row]]) -> _Changes:
    known: dict[str, dict[int, bytes]] = {}
    for doc_id, place, digest in connection.execute(sql.read_digests(), (list(documents),)):
        known.setdefault(doc_id, {})[place] = digest
    counts = UpsertCounts()
    touched, stale, fresh = {}, [], []
    for doc_id, rows in documents.items():
        before = known.get(doc_id, {})
        changed = [row for row in rows if before.get(row.chunk.chunk_index) != row.digest]
        updated = [row.chunk.chunk_index for row in changed if row.chunk.chunk_index in before]
        deleted = sorted(before.keys() - {row.chunk.chunk_index for row in rows})
        counts += UpsertCounts(
            documents=1,
            inserted=len(changed) - len(updated),
            updated=len(updated),
            unchanged=len(rows) - len(changed),
            deleted=len(deleted),
        )
        if changed or deleted:
            touched[doc_id] = list(rows)
        stale += [(doc_id, place) for place in (*updated, *deleted)]
        fresh += changed
    return _Changes(counts, len(documents.keys() - known.keys()), touched, stale, fresh)


def _apply(connection: Any, sql: Statements, changes: _Changes, state: CollectionState) -> int:
    """Do it; by how much the number of terms grew."""
    if changes.touched:
        digests = [rows_digest(rows) for rows in changes.touched.values()]
        metadata = [dump_json(shared_metadata(row.chunk for row in rows)) for rows in changes.touched.values()]
        connection.execute(sql.write_documents(), (list(changes.touched), digests, metadata))
    lost = 0
    if changes.stale:
        places = [list(column) for column in zip(*changes.stale, strict=True)]
        (lost,) = connection.execute(sql.delete_rows(state.is_posted), places).fetchone()
    if changes.fresh:
        _copy(connection, sql, changes.fresh)
    return sum(row.length for row in changes.fresh) - int(lost)


def _copy(connection: Any, sql: Statements, rows: Sequence[Row]) -> None:
    from psycopg.types.json import Jsonb

    with connection.cursor().copy(sql.copy_rows()) as copy:
        copy.set_types(COLUMN_TYPES)
        for row in rows:
            chunk = row.chunk
            copy.write_row(
                (
                    sql.collection_id,
                    chunk.doc_id,
                    chunk.chunk_index,
                    chunk.content,
                    list(chunk.tags),
                    Jsonb(row.metadata_json, dumps=str),
                    chunk.start,
                    chunk.end,
                    row.vector,
                    row.length,
                    tsvector_literal(row.frequencies),
                    row.digest,
                )
            )


def _create_indexes(connection: Any, sql: Statements, policy: IndexPolicy) -> None:
    _set_local(connection, "maintenance_work_mem", policy.maintenance_work_mem)
    for statement in sql.create_indexes():
        _make_index(connection, statement)
    connection.execute(sql.set_indexed())
    connection.execute(sql.analyze())


def _make_index(connection: Any, statement: bytes) -> None:
    try:
        with connection.transaction():
            connection.execute(statement)
    except _out_of_shared_memory():
        # Parallel workers share the memory of the build in /dev/shm, of which containers often have 64 MB.
        _set_local(connection, "max_parallel_maintenance_workers", "0")
        connection.execute(statement)


def _set_local(connection: Any, name: str, value: str) -> None:
    """A setting until the transaction ends."""
    connection.execute("SELECT set_config(%s, %s, true)", (name, value))


def _out_of_shared_memory() -> tuple[type[Exception], ...]:
    from psycopg.errors import DiskFull, OutOfMemory

    return DiskFull, OutOfMemory
