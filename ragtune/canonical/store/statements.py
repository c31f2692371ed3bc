"""The SQL of one collection, from ``statements.sql``."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Any

from ragtune.canonical.types import Filters

SCHEMA_VERSION = 4

FANOUT = 16
"""Number of writes whose blocks of postings are joined."""

BUILT = 99
"""Level of blocks that a rebuild makes; they are never joined."""

MARGIN = 16
"""Rows beyond k that a vector search reads: float32 sums of the server may order near-ties differently."""

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


def read_sql(name: str, **values: int | str) -> str:
    """A file of this folder, its placeholders filled with identifiers and numbers of this package."""
    return (files("ragtune.canonical.store") / name).read_text(encoding="utf-8").format(**values)


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


class Statements:
    """SQL for the tables of a collection. The text holds only integers and constants; all values are parameters."""

    def __init__(self, collection_id: int, dims: int) -> None:
        self.collection_id = int(collection_id)
        self.dims = int(dims)
        self._name = f"chunks_{self.collection_id}"
        # pgvector indexes vectors of up to 2000 dims, and half-precision vectors of up to 4000.
        kind = "vector" if self.dims <= 2000 else "halfvec" if self.dims <= 4000 else None
        self._operators = f"{kind}_cosine_ops"
        self._words: dict[str, Any] = {
            "collection_id": self.collection_id,
            "partition": f"ragtune.{self._name}",
            "postings": f"ragtune.postings_{self.collection_id}",
            "own": f"collection_id = {self.collection_id}",
            "row": _ROW,
            "columns": ", ".join(COLUMN_TYPES),
            "slack": _SLACK,
            "indexed_as": None if kind is None else f"{kind}({self.dims})",
        }

    @property
    def has_vector_index(self) -> bool:
        """Whether pgvector can index vectors of this length. If not, every vector search is exact."""
        return self._words["indexed_as"] is not None

    def __call__(self, name: str, condition: str = NO_FILTER) -> str:
        """Return a statement of ``statements.sql``; ``condition`` selects the chunks of a search."""
        return _statements()[name].format(**self._words, condition=condition)

    def create_tables(self) -> str:
        """The tables of the collection."""
        names = ("partition", "postings", "collection_id")
        return read_sql("collection.sql", **{name: self._words[name] for name in names}, dims=self.dims, built=BUILT)

    def create_indexes(self) -> list[str]:
        """The secondary indexes: of vectors, lexemes, tags and metadata."""
        columns = {"tsv": "tsv", "tags": "tags", "metadata": "metadata jsonb_path_ops"}
        partition = self._words["partition"]
        # Without fastupdate a search never reads through a list of pending entries.
        indexes = [
            f"CREATE INDEX {self._name}_{name} ON {partition} USING gin ({column}) WITH (fastupdate = off)"
            for name, column in columns.items()
        ]
        if self.has_vector_index:
            vectors = f"(embedding::{self._words['indexed_as']}) {self._operators}"
            indexes.append(f"CREATE INDEX {self._name}_hnsw ON {partition} USING hnsw ({vectors})")
        return indexes


@cache
def _statements() -> dict[str, str]:
    text = (files("ragtune.canonical.store") / "statements.sql").read_text(encoding="utf-8")
    _, *parts = _NAME.split(text.split("\n\n", 1)[1])
    return {name: sql.strip() for name, sql in zip(parts[::3], parts[2::3], strict=True)}
