"""The SQL of one collection, from ``statements.sql``."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Any

from ragtune.canonical.types import Filters
from ragtune.core.errors import StoreError

SCHEMA_VERSION = 5

FANOUT = 16
"""Number of writes whose blocks of postings are joined."""

BUILT = 99
"""Level of blocks that a rebuild makes; they are never joined."""

MARGIN = 16
"""Rows beyond k that a vector search reads: float32 sums of the server may order near-ties differently."""

EF_SEARCH = 200
"""Candidates that an HNSW search keeps; more cost time and raise recall."""

NO_FILTER = "true"

COLUMN_TYPES = {
    "collection_id": "int4",
    "doc_id": "text",
    "chunk_index": "int4",
    "place": "int4",
    "content": "text",
    "tags": "text[]",
    "metadata": "jsonb",
    "span_start": "int4",
    "span_end": "int4",
    "embedding": "vector",
    "length": "int4",
    "lexemes": "text",
    "digest": "bytea",
}
"""Columns of the statement ``copy_rows``, in order."""

_ROW = "c.doc_id, c.chunk_index, c.content, c.tags, c.metadata, c.span_start, c.span_end"
_NAME = re.compile(r"^-- (\w+)(?:: .*)?\n((?:-- .*\n)*)", re.MULTILINE)
_SLACK = 5e-6  # more than the error of the server's distances between unit vectors


def filter_condition(filters: Filters) -> str:
    """The WHERE condition of rule D7 with the parameters ``tags_any``, ``tags_all`` and ``metadata``."""
    parts = []
    if filters.tags_any:
        parts.append("tags && %(tags_any)s::text[]")
    if filters.tags_all:
        parts.append("tags @> %(tags_all)s::text[]")
    if filters.metadata:
        # Containment uses the index, but it also holds for parts of a value, so equality decides.
        parts.append(
            "metadata @> %(metadata)s::jsonb AND NOT EXISTS (SELECT 1 FROM jsonb_each(%(metadata)s::jsonb) wanted "
            "WHERE metadata -> wanted.key IS DISTINCT FROM wanted.value)"
        )
    return "(" + " AND ".join(parts) + ")" if parts else NO_FILTER


class MissingTableError(StoreError):
    """The table does not exist, since its collection was dropped."""


class Statements:
    """SQL for the tables of a collection. The text holds only integers and constants; all values are parameters."""

    def __init__(self, collection_id: int, dims: int) -> None:
        self.collection_id = int(collection_id)
        # pgvector indexes vectors of up to 2000 dims, and half-precision vectors of up to 4000.
        kind = "vector" if dims <= 2000 else "halfvec"
        self.has_vector_index = dims <= 4000  # if not, every vector search is exact
        self._words: dict[str, Any] = {
            "collection_id": self.collection_id,
            "dims": int(dims),
            "partition": f"ragtune.chunks_{self.collection_id}",
            "postings": f"ragtune.postings_{self.collection_id}",
            "own": f"collection_id = {self.collection_id}",
            "row": _ROW,
            "columns": ", ".join(COLUMN_TYPES),
            "slack": _SLACK,
            "built": BUILT,
            "indexed_as": f"{kind}({int(dims)})",
            "operators": f"{kind}_cosine_ops",
        }

    def __call__(self, name: str, condition: str = NO_FILTER) -> str:
        """Return a statement of ``statements.sql``; ``condition`` selects the chunks of a search."""
        return _statements()[name].format(**self._words, condition=condition)


@cache
def _statements() -> dict[str, str]:
    text = (files("ragtune.canonical.store") / "statements.sql").read_text(encoding="utf-8")
    _, *parts = _NAME.split(text.split("\n\n", 1)[1])
    return {name: sql.strip() for name, sql in zip(parts[::3], parts[2::3], strict=True)}
