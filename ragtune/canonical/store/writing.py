"""Writes to a collection: whole documents, one transaction for each call, one writer at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ragtune.canonical.permit import current
from ragtune.canonical.store.lexical import tsvector_literal
from ragtune.canonical.store.rows import Row, compare, dump_json, rows_digest, shared_metadata
from ragtune.canonical.store.statements import BUILT, COLUMN_TYPES, FANOUT, MissingTableError, Statements
from ragtune.canonical.types import UpsertCounts

_BUILD_MEMORY = "512MB"  # of an index build
_MOST_AT_ONCE = 50_000  # chunks whose postings can be rebuilt within a request's time
_MOST_GONE = 1000  # deleted chunks that the postings of a collection of any size may have
_BLOCK = 65_536  # chunks whose postings are rebuilt in one statement


class _State(NamedTuple):
    chunks: int
    places: int
    gone: int
    is_indexed: bool


def write_documents(
    connection: Any, sql: Statements, documents: Mapping[str, Sequence[Row]], exact_below: int | None
) -> UpsertCounts:
    """Make documents consist of exactly the given rows, in one transaction."""
    with connection.transaction():
        state = _lock(connection, sql)
        counts, after = _apply(connection, sql, documents, state)
        if exact_below is not None:
            _complete(connection, sql, after, exact_below, _MOST_AT_ONCE)
        current().commit()
    return counts


def build_indexes(connection: Any, sql: Statements, exact_below: int) -> None:
    """Build the indexes of a collection with more chunks, and its postings if most of their chunks are deleted."""
    with connection.transaction():
        _complete(connection, sql, _lock(connection, sql), exact_below)


def _lock(connection: Any, sql: Statements) -> _State:
    """Keep other writers out until the transaction ends."""
    found = connection.execute(sql("lock")).fetchone()
    if found is None:
        raise MissingTableError(f"collection {sql.collection_id} no longer exists")
    return _State(*found)


def _apply(
    connection: Any, sql: Statements, documents: Mapping[str, Sequence[Row]], state: _State
) -> tuple[UpsertCounts, _State]:
    known: dict[str, dict[int, bytes]] = {}
    for doc_id, chunk_index, digest in connection.execute(sql("read_digests"), (list(documents),)):
        known.setdefault(doc_id, {})[chunk_index] = digest
    changes = {doc_id: compare(known.get(doc_id, {}), rows) for doc_id, rows in documents.items()}
    counts = sum((change.counts for change in changes.values()), UpsertCounts())
    fresh = [row for change in changes.values() for row in change.fresh]
    stale = [(doc_id, place) for doc_id, change in changes.items() for place in change.stale]
    if not fresh and not stale:
        return counts, state
    written = {doc_id: documents[doc_id] for doc_id, change in changes.items() if change.fresh or change.stale}
    deleted = [doc_id for doc_id, rows in written.items() if not rows]
    kept = {doc_id: rows for doc_id, rows in written.items() if rows}
    digests = [rows_digest(rows) for rows in kept.values()]
    metadata = [dump_json(shared_metadata(row.chunk for row in rows)) for rows in kept.values()]
    connection.execute(sql("write_documents"), (list(kept), digests, metadata))
    keys = [doc_id for doc_id, _ in stale], [place for _, place in stale]
    (lost,) = connection.execute(sql("delete_rows"), keys).fetchone()
    connection.execute(sql("delete_documents"), (deleted,))
    after = state._replace(
        chunks=state.chunks + counts.inserted - counts.deleted,
        places=state.places + len(fresh),
        gone=state.gone + len(stale),
    )
    if fresh:
        _copy(connection, sql, fresh, state.places)
        _add_postings(connection, sql, state.places, after.places, 0)
    growth = {
        "documents": len(written.keys() - known.keys()) - len(deleted),
        "chunks": after.chunks - state.chunks,
        "terms": sum(row.length for row in fresh) - lost,
        "places": len(fresh),
        "gone": len(stale),
    }
    (writes,) = connection.execute(sql("count"), growth).fetchone()
    level = 0
    while writes % FANOUT ** (level + 1) == 0:
        connection.execute(sql("join_postings"), {"level": level})
        level += 1
    return counts, after


def _copy(connection: Any, sql: Statements, rows: Sequence[Row], first_place: int) -> None:
    from psycopg.types.json import Jsonb

    with connection.cursor().copy(sql("copy_rows")) as copy:
        copy.set_types(COLUMN_TYPES.values())
        for place, row in enumerate(rows, start=first_place):
            chunk = row.chunk
            copy.write_row(
                (
                    sql.collection_id,
                    chunk.doc_id,
                    chunk.chunk_index,
                    place,
                    chunk.content,
                    list(chunk.tags),
                    Jsonb(chunk.metadata, dumps=dump_json),
                    chunk.start,
                    chunk.end,
                    row.vector,
                    row.length,
                    tsvector_literal(row.frequencies),
                    row.digest,
                )
            )


def _complete(connection: Any, sql: Statements, state: _State, exact_below: int, most: int | None = None) -> None:
    """Build what a collection lacks. Postings of more than ``most`` chunks take too long for a request."""
    if state.gone > state.chunks + _MOST_GONE and (most is None or state.chunks <= most):
        connection.execute(sql("clear_postings"))
        for first in range(0, state.places, _BLOCK):
            _add_postings(connection, sql, first, first + _BLOCK, BUILT)
    if not state.is_indexed and state.chunks > exact_below:
        _set_local(connection, "maintenance_work_mem", _BUILD_MEMORY)
        _create_index(connection, sql("index_words"))
        if sql.has_vector_index:
            _create_index(connection, sql("index_vectors"))
        connection.execute(sql("set_indexed"))


def _add_postings(connection: Any, sql: Statements, first: int, end: int, level: int) -> None:
    connection.execute(sql("add_postings"), {"first": first, "end": end, "level": level})


def _create_index(connection: Any, statement: str) -> None:
    from psycopg.errors import DiskFull, OutOfMemory

    try:
        with connection.transaction():
            connection.execute(statement)
    except (DiskFull, OutOfMemory):
        # Parallel workers share the memory of the build in /dev/shm, of which containers often have 64 MB.
        _set_local(connection, "max_parallel_maintenance_workers", "0")
        connection.execute(statement)


def _set_local(connection: Any, name: str, value: str) -> None:
    """Change a setting until the transaction ends."""
    connection.execute("SELECT set_config(%s, %s, true)", (name, value))
