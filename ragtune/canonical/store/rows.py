"""Chunks in the form that stores keep, checked, with digests that detect changes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from heapq import nsmallest
from typing import Any

import numpy as np

from ragtune.canonical.analyzers import Analyzer
from ragtune.canonical.normalization import check_metadata, check_string
from ragtune.canonical.store.lexical import term_frequencies
from ragtune.canonical.types import Candidate, Chunk, Embedding, Filters, UpsertCounts
from ragtune.core.arguments import check_count
from ragtune.core.errors import InputError

_MAX_KEY_BYTES = 1024  # a third of a page is what PostgreSQL's indexes hold
_MAX_INT = 2**31 - 1
_CANDIDATE = ("doc_id", "chunk_index", "content", "tags", "metadata")
_UNIT = 1e-4
_DECIMALS = 6
_DIGEST = 16  # bytes
_LARGE = 1e16  # from here on jsonb writes a float without a fraction, so JSON reads an int


@dataclass(frozen=True)
class Row:
    """A chunk as ``jsonb`` gives it back, with its vector; ``content_digest`` is of everything but the vector."""

    chunk: Chunk
    vector: Embedding
    content_digest: bytes
    digest: bytes
    analyzer: Analyzer

    @cached_property
    def frequencies(self) -> dict[str, int]:
        return term_frequencies(self.chunk.content, self.analyzer)

    @property
    def length(self) -> int:
        return sum(self.frequencies.values())


def make_rows(chunks: Sequence[Chunk], embeddings: Embedding, dims: int, analyzer: Analyzer) -> dict[str, list[Row]]:
    """Rows by document, documents by code point, rows by chunk_index. Vectors are normalised."""
    vectors = _check_vectors(embeddings, len(chunks), dims)
    documents: dict[str, dict[int, Row]] = {}
    for chunk, vector in zip(chunks, vectors, strict=True):
        rows = documents.setdefault(check_doc_id(chunk.doc_id), {})
        if chunk.chunk_index in rows:
            raise InputError(f"chunks: {(chunk.doc_id, chunk.chunk_index)!r} occurs twice, allowed is once")
        rows[chunk.chunk_index] = _make_row(chunk, vector, analyzer)
    return {doc_id: [rows[place] for place in sorted(rows)] for doc_id, rows in sorted(documents.items())}


@dataclass(frozen=True)
class Change:
    """Rows to insert and chunk indexes of rows to delete, so that a document consists of given rows."""

    counts: UpsertCounts
    fresh: list[Row]
    stale: list[int]


def compare(before: Mapping[int, bytes], rows: Sequence[Row]) -> Change:
    """Compare a document's stored digests, by chunk index, with its new rows."""
    fresh = [row for row in rows if before.get(row.chunk.chunk_index) != row.digest]
    updated = [row.chunk.chunk_index for row in fresh if row.chunk.chunk_index in before]
    deleted = sorted(before.keys() - {row.chunk.chunk_index for row in rows})
    counts = UpsertCounts(
        documents=int(bool(before or rows)),
        inserted=len(fresh) - len(updated),
        updated=len(updated),
        unchanged=len(rows) - len(fresh),
        deleted=len(deleted),
    )
    return Change(counts, fresh, [*updated, *deleted])


def document_digest(chunks: Iterable[Chunk]) -> str:
    """The digest of a document in ``BaseStore.digests``: 32 hexadecimal digits, of its chunks without their vectors."""
    stored = map(_stored, sorted(chunks, key=lambda chunk: chunk.chunk_index))
    return _joined(map(_content_digest, stored))


def rows_digest(rows: Iterable[Row]) -> str:
    """:func:`document_digest` of a document's rows."""
    return _joined(row.content_digest for row in rows)


def shared_metadata(chunks: Iterable[Chunk]) -> dict[str, Any]:
    """The metadata that all chunks of a document share."""
    first, *others = [chunk.metadata for chunk in chunks] or [{}]
    return {
        key: value
        for key, value in first.items()
        if all(key in other and same_json(other[key], value) for other in others)
    }


def check_doc_id(doc_id: str) -> str:
    """``doc_id`` if it can be stored: text of 1 to 1024 bytes."""
    return _check_key(doc_id, "doc_id")


def check_page(after: str | None, limit: int | None) -> tuple[str, int | None]:
    """The text before a page of document ids, and the most ids that it has."""
    return (
        "" if after is None else check_string(after, "after"),
        None if limit is None else check_count("limit", limit, low=1, high=_MAX_INT),
    )


def check_filters(filters: Filters) -> Filters:
    """``filters`` in the form of stored chunks."""
    if filters.is_empty:
        return filters
    for name, tags in (("tags_any", filters.tags_any), ("tags_all", filters.tags_all)):
        for tag in tags:
            check_string(tag, name)
    return filters.model_copy(update={"metadata": _canonical(check_metadata(filters.metadata, "metadata filter"))})


def check_query(embedding: Embedding, dims: int) -> Embedding:
    """The query's vector, shape (dims,), L2-normalised or zero."""
    return np.asarray(_check_vectors(np.asarray(embedding)[None], 1, dims)[0])


def cosines(matrix: Embedding, query: Embedding) -> list[float]:
    """Cosine of each L2-normalised row, shape (n, d), with a query, shape (d,), to 6 decimals, as float32 sums vary."""
    products = (matrix.astype(np.float64) * query.astype(np.float64)).sum(axis=1)
    return [float(value) for value in np.round(np.clip(products, -1.0, 1.0), _DECIMALS) + 0.0]


def candidates(found: Iterable[tuple[Sequence[Any], float]], k: int, source: str) -> list[Candidate]:
    """The ``k`` best (rule D12) of rows with scores; a row begins with doc_id, chunk_index, content, tags, metadata."""
    best = nsmallest(k, found, key=lambda pair: (-pair[1], pair[0][0], pair[0][1]))
    return [candidate(row, score, {source: score}) for row, score in best]


def candidate(row: Sequence[Any], score: float, sources: dict[str, float]) -> Candidate:
    """A candidate from a row of :func:`candidates`."""
    return Candidate(**dict(zip(_CANDIDATE, row, strict=False)), score=score, sources=sources)


def check_k(k: int) -> int:
    """``k`` if it is a whole number of 1 to 2147483647."""
    return check_count("k", k, low=1, high=_MAX_INT)


def same_json(left: object, right: object) -> bool:
    """Equality of ``jsonb`` for values in stored form: 1 is 1.0 but not true."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same_json(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same_json, left, right))
    return isinstance(left, bool) == isinstance(right, bool) and left == right


def dump_json(value: object) -> str:
    """Compact JSON of a value in stored form."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _make_row(chunk: Chunk, vector: Embedding, analyzer: Analyzer) -> Row:
    check_string(chunk.content, "content")
    check_count("chunk_index", chunk.chunk_index, high=_MAX_INT)
    check_count("end", chunk.end, high=_MAX_INT)
    for tag in chunk.tags:
        _check_key(tag, "tag")
    stored = _stored(chunk)
    content_digest = _content_digest(stored)
    digest = hashlib.blake2b(content_digest + vector.tobytes(), digest_size=_DIGEST).digest()
    return Row(stored, vector, content_digest, digest, analyzer)


def _stored(chunk: Chunk) -> Chunk:
    metadata = _canonical(check_metadata(chunk.metadata, f"metadata of {chunk.doc_id!r}"))
    return chunk.model_copy(update={"tags": tuple(sorted(set(chunk.tags))), "metadata": metadata})


def _content_digest(chunk: Chunk) -> bytes:
    content, metadata = chunk.content.encode(), dump_json(chunk.metadata)
    about = dump_json([chunk.chunk_index, chunk.start, chunk.end, len(content), chunk.tags, metadata])
    return hashlib.blake2b(content + about.encode(), digest_size=_DIGEST).digest()


def _joined(digests: Iterable[bytes]) -> str:
    return hashlib.blake2b(b"".join(digests), digest_size=_DIGEST).hexdigest()


def _canonical(value: Any) -> Any:
    """A JSON value as ``jsonb`` gives it back: keys by length, then bytes; large floats as the integers they denote."""
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: (len(key.encode()), key.encode()))
        return {key: _canonical(value[key]) for key in keys}
    if isinstance(value, list):
        return [_canonical(inner) for inner in value]
    if isinstance(value, float):
        return int(Decimal(repr(value))) if abs(value) >= _LARGE else value + 0.0
    return value


def _check_key(value: str, name: str) -> str:
    size = len(check_string(value, name).encode())
    if not 1 <= size <= _MAX_KEY_BYTES:
        raise InputError(f"{name}={value[:100]!r}, {size} bytes: allowed are 1 to {_MAX_KEY_BYTES} bytes of UTF-8")
    return value


def _check_vectors(embeddings: Embedding, count: int, dims: int) -> Embedding:
    vectors = np.array(embeddings, dtype=np.float64, ndmin=1)
    if vectors.shape != (count, dims) and not (count == 0 and vectors.size == 0):
        raise InputError(f"embeddings of shape {vectors.shape}: allowed is ({count}, {dims})")
    if not np.isfinite(vectors).all():
        raise InputError("embeddings: allowed are finite values")
    vectors = vectors.reshape(count, dims)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    norms[(np.abs(norms - 1.0) <= _UNIT) | (norms == 0)] = 1.0  # unit vectors keep their bits
    return np.asarray((vectors / norms).astype(np.float32))
