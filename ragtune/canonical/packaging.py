"""Package (rule D11): results as JSON, in order, with scores and metadata."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from ragtune.canonical.normalization import check_metadata
from ragtune.canonical.types import Candidate, Excerpts
from ragtune.core.errors import InputError

_EXCERPT_FIELDS = ("start", "end", "text", "score", "tokens")


def package(
    query: str,
    candidates: Sequence[Candidate],
    excerpts: Excerpts | None = None,
    *,
    include_content: bool = True,
) -> dict[str, Any]:
    """The answer of a service: a JSON object that shares no value with its inputs.

    Args:
        query: the query, repeated in the answer.
        candidates: the candidates in the order of the last block.
        excerpts: result of :func:`ragtune.canonical.compression.compress`; None if nothing was compressed.
        include_content: whether results have their full text.

    Returns:
        ``{"query", "count", "results"}``; each result with ``rank`` (from 1), ``doc_id``, ``chunk_index``, ``score``,
        ``sources`` (score by list), ``tags``, ``metadata``, then ``content`` and, if excerpts were given,
        ``excerpts`` (``start``, ``end``, ``text``, ``score``, ``tokens``; empty where nothing was taken).

    Raises:
        InputError: on a candidate that occurs twice, an excerpt of no candidate, or metadata that are not JSON.

    Examples:
        >>> from ragtune.canonical.packaging import package
        >>> from ragtune.canonical.types import Candidate
        >>> found = Candidate(doc_id="d1", chunk_index=0, content="Green tea is not fermented.", score=1.0)
        >>> sorted(package("green tea", [found]))
        ['count', 'query', 'results']
    """
    own = _by_key(candidates, excerpts or ())
    results = []
    for rank, candidate in enumerate(candidates, start=1):
        result: dict[str, Any] = {
            "rank": rank,
            "doc_id": candidate.doc_id,
            "chunk_index": candidate.chunk_index,
            "score": candidate.score,
            "sources": dict(candidate.sources),
            "tags": list(candidate.tags),
            "metadata": deepcopy(check_metadata(candidate.metadata, f"metadata of {candidate.key!r}")),
        }
        if include_content:
            result["content"] = candidate.content
        if excerpts is not None:
            result["excerpts"] = own[candidate.key]
        results.append(result)
    return {"query": query, "count": len(results), "results": results}


def _by_key(candidates: Sequence[Candidate], excerpts: Excerpts) -> dict[tuple[str, int], list[dict[str, Any]]]:
    own: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for candidate in candidates:
        if candidate.key in own:
            raise InputError(f"candidates: {candidate.key!r} occurs twice, allowed is once")
        own[candidate.key] = []
    for excerpt in excerpts:
        key = (excerpt["doc_id"], excerpt["chunk_index"])
        if key not in own:
            raise InputError(f"excerpts: {key!r} is not among the candidates")
        own[key].append({name: excerpt[name] for name in _EXCERPT_FIELDS})
    return own
