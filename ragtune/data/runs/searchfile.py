"""Responses of Elasticsearch and OpenSearch in files, and which query each belongs to.

What is understood, as JSON:

- a line a query: a response of ``_search`` with the query's id beside it, ``{"query_id": "q1", "hits": {...}}`` or
  ``{"query_id": "q1", "response": {"hits": ...}}``;
- one object with the response of each query by its id, ``{"q1": {"hits": ...}, "q2": ...}``;
- a response of ``_msearch``, ``{"responses": [...]}``, in the order of the collection's queries;
- a response of ``_rank_eval``, ``{"details": {"q1": {"hits": [{"hit": ...}]}}}``, whose requests are named by query.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ragtune.core.errors import DatasetError
from ragtune.core.plain import quoted
from ragtune.data.files.records import QUERY_ID, read_objects
from ragtune.data.files.textfile import RepeatedKeyError, read_json, read_lines
from ragtune.data.files.values import id_of, number_of, require_id

_KEYS = {"hits", "response", "responses", "details"}

Hits = list[tuple[str, float]]
"""Document and score, best first."""


def holds_responses(file: Path) -> bool:
    """Whether a file of JSON holds responses, not records."""
    row = _first_object(file)
    return row is None or not _KEYS.isdisjoint(row) or all(isinstance(value, dict) for value in row.values())


def read_responses(file: Path, order: Sequence[str]) -> Iterator[tuple[str, str, Hits]]:
    """Where each response stands, its query's id, and its hits.

    Args:
        file: JSON, in one of the forms above, gzipped or not.
        order: ids of the queries in the order of the responses of ``_msearch``.

    Raises:
        DatasetError: naming the file, and the line or query, if it has none of these forms, or a search failed, timed
            out or missed a shard, or a hit has no score.
    """
    if _is_lines(file):
        for where, row in read_objects(file):
            query_id = next((row[name] for name in QUERY_ID if name in row), None)
            if query_id is None:
                raise DatasetError(f"{where}: the response does not say its query: put its 'query_id' beside 'hits'")
            ours = require_id(id_of(query_id, where, "query_id"), f"{where}: 'query_id' is")
            yield where, ours, _hits(row.get("response", row), where)
        return
    for query, response in _by_query(_whole(file), file, order).items():
        where = f"{file}: query {quoted(query)}"
        yield where, require_id(query, f"{file}: a query's id is"), _hits(response, where)


def _first_object(file: Path) -> dict[str, Any] | None:
    """The object on the first line; None where that is only its beginning."""
    number, line = next(read_lines(file))
    try:
        row = read_json(line)
    except RepeatedKeyError as error:
        raise DatasetError(f"{file}:{number}: malformed JSON: {error}") from None
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def _is_lines(file: Path) -> bool:
    """Whether the first line is an object of one query, not the whole or the beginning of a larger one."""
    row = _first_object(file)
    return row is not None and not {"hits", "response", *QUERY_ID}.isdisjoint(row)


def _whole(file: Path) -> dict[str, Any]:
    try:
        content = read_json("\n".join(line for _, line in read_lines(file)))
    except ValueError as error:
        raise DatasetError(f"{file}: malformed JSON: {error}") from None
    if not isinstance(content, dict):
        raise DatasetError(f"{file}: expected a JSON object, found {type(content).__name__}")
    return content


def _by_query(content: Mapping[str, Any], file: Path, order: Sequence[str]) -> Mapping[str, Any]:
    if isinstance(content.get("responses"), list):
        responses = content["responses"]
        if len(responses) != len(order):
            raise DatasetError(
                f"{file}: {len(responses)} responses for {len(order)} queries: allowed is one for each query of the "
                "collection, in its order; else write a line a response, with its 'query_id' beside 'hits'"
            )
        return dict(zip(order, responses, strict=True))
    if isinstance(content.get("details"), dict):
        details: Mapping[str, Any] = content["details"]
        return details
    if isinstance(content.get("hits"), dict):
        raise DatasetError(
            f"{file}: a response of one search, which does not say its query: write a line a response, with its "
            "'query_id' beside 'hits'"
        )
    return content


def _hits(response: Any, where: str) -> Hits:
    _require_complete(response, where)
    hits = response.get("hits")
    found = hits.get("hits") if isinstance(hits, dict) else hits
    if not isinstance(found, list):
        raise DatasetError(f"{where}: no list of hits in 'hits': expected a response of Elasticsearch or OpenSearch")
    return [_hit(each, f"{where}, hit {number}") for number, each in enumerate(found, start=1)]


def _hit(each: Any, where: str) -> tuple[str, float]:
    hit = each.get("hit", each) if isinstance(each, dict) else None
    if not isinstance(hit, dict):
        raise DatasetError(f"{where} is {quoted(each)}: expected an object with '_id' and '_score'")
    doc_id = require_id(id_of(hit.get("_id"), where, "_id"), f"{where}: '_id' is")
    return doc_id, number_of(hit.get("_score"), where, "_score")


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
