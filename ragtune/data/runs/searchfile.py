"""Responses of Elasticsearch and OpenSearch in files: JSON, a line a query.

Each line is a response of ``_search`` with the query's id beside it: ``{"query_id": "q1", "hits": {...}}`` or
``{"query_id": "q1", "response": {"hits": ...}}``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ragtune.core.errors import DatasetError
from ragtune.core.plain import quoted
from ragtune.data.files.records import QUERY_ID, read_objects
from ragtune.data.files.textfile import id_of, number_of, read_json, read_lines, require_id

_KEYS = {"hits", "response", "responses", "details"}

Hits = list[tuple[str, float]]
"""Document and score, best first."""


def holds_responses(file: Path) -> bool:
    """Whether a file of JSON holds responses, not records."""
    _, line = next(read_lines(file))
    try:
        row = read_json(line)
    except ValueError:  # which reading the file will say
        return False
    return isinstance(row, dict) and not _KEYS.isdisjoint(row)


def read_responses(file: Path) -> Iterator[tuple[str, str, Hits]]:
    """Where each response stands, its query's id, and its hits.

    Raises:
        DatasetError: naming the file and the line, if it has another form, or a search failed, timed out or missed a
            shard, or a hit has no score.
    """
    for where, row in read_objects(file):
        query_id = next((row[name] for name in QUERY_ID if name in row), None)
        if query_id is None:
            raise DatasetError(
                f"{where}: the response does not say its query: write a line a response, with its 'query_id' beside "
                "'hits'"
            )
        ours = require_id(id_of(query_id, where, "query_id"), f"{where}: 'query_id' is")
        yield where, ours, _hits(row.get("response", row), where)


def _hits(response: Any, where: str) -> Hits:
    _require_complete(response, where)
    hits = response.get("hits")
    found = hits.get("hits") if isinstance(hits, dict) else hits
    if not isinstance(found, list):
        raise DatasetError(f"{where}: no list of hits in 'hits': expected a response of Elasticsearch or OpenSearch")
    return [_hit(each, f"{where}, hit {number}") for number, each in enumerate(found, start=1)]


def _hit(each: Any, where: str) -> tuple[str, float]:
    if not isinstance(each, dict):
        raise DatasetError(f"{where} is {quoted(each)}: expected an object with '_id' and '_score'")
    doc_id = require_id(id_of(each.get("_id"), where, "_id"), f"{where}: '_id' is")
    return doc_id, number_of(each.get("_score"), where, "_score")


def _require_complete(response: Any, where: str) -> None:
    """Refuse what is no first stage: it would be measured as if the engine had found no more."""
    if not isinstance(response, dict):
        raise DatasetError(f"{where}: the response is {quoted(response)}: expected an object with 'hits'")
    if error := response.get("error"):
        reason = error.get("reason", error) if isinstance(error, dict) else error
        raise DatasetError(f"{where}: the search failed: {quoted(reason)}: repeat it")
    shards = response.get("_shards")
    failed = shards.get("failed") if isinstance(shards, dict) else 0
    if response.get("timed_out") or failed:
        what = "timed out" if response.get("timed_out") else f"failed on {quoted(failed)} shards"
        raise DatasetError(f"{where}: the search {what}, so documents are missing: repeat it")
