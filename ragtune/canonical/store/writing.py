"""Writes to a collection: whole documents, one transaction a call, one writer at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragtune.canonical.store.connections import MissingTableError
from ragtune.canonical.store.lexical import tsvector_literal
from ragtune.canonical.store.rows import Row, dump_json, rows_digest, shared_metadata
from ragtune.canonical.store.statements import COLUMN_TYPES, Statements
from ragtune.canonical.types import UpsertCounts


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


def lock_collection(connection: Any, sql: Statements) -> tuple[int, bool]:
    """Chunks of the collection and whether it is indexed; no other writer until the transaction ends."""
    found = connection.execute(sql.lock()).fetchone()
    if found is None:
        raise MissingTableError(f"collection {sql.collection_id} is no longer there")
    chunks, is_indexed = found
    return int(chunks), bool(is_indexed)


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
        chunks, is_indexed = lock_collection(connection, sql)
        changes = _compare(connection, sql, documents)
        terms = _apply(connection, sql, changes)
        growth = changes.counts.inserted - changes.counts.deleted
        connection.execute(sql.count(), (changes.new_documents, growth, terms))
        if policy is not None and not is_indexed and chunks + growth > policy.above:
            _create_indexes(connection, sql, policy)
    return changes.counts


def build_indexes(connection: Any, sql: Statements, policy: IndexPolicy) -> None:
    """Build the secondary indexes if the collection is large enough and has none."""
    with connection.transaction():
        chunks, is_indexed = lock_collection(connection, sql)
        if not is_indexed and chunks > policy.above:
            _create_indexes(connection, sql, policy)


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


def _apply(connection: Any, sql: Statements, changes: _Changes) -> int:
    """Do it; by how much the number of terms grew."""
    if changes.touched:
        digests = [rows_digest(rows) for rows in changes.touched.values()]
        metadata = [dump_json(shared_metadata(rows)) for rows in changes.touched.values()]
        connection.execute(sql.write_documents(), (list(changes.touched), digests, metadata))
    lost = 0
    if changes.stale:
        places = [list(column) for column in zip(*changes.stale, strict=True)]
        (lost,) = connection.execute(sql.delete_rows(), places).fetchone()
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
    set_local = "SELECT set_config(%s, %s, true)"
    connection.execute(set_local, ("maintenance_work_mem", policy.maintenance_work_mem))
    for statement in sql.create_indexes():
        try:
            with connection.transaction():
                connection.execute(statement)
        except _out_of_shared_memory():
            # Parallel workers share the memory of the build in /dev/shm, of which containers often have 64 MB.
            connection.execute(set_local, ("max_parallel_maintenance_workers", "0"))
            connection.execute(statement)
    connection.execute(sql.set_indexed())
    connection.execute(sql.analyze())


def _out_of_shared_memory() -> tuple[type[Exception], ...]:
    from psycopg.errors import DiskFull, OutOfMemory

    return DiskFull, OutOfMemory
