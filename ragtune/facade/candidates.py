"""What a caller hands in, checked and put into the first stage's order."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np
from pydantic import ValidationError

from ragtune.core.arguments import as_list, is_missing
from ragtune.core.errors import ConfigError, InputError
from ragtune.core.hits import Facts, Hits
from ragtune.core.plain import quoted, well_formed
from ragtune.core.request.budget import CostBudget
from ragtune.core.request.context import ORIGINAL
from ragtune.core.types import ScoredDocument
from ragtune.core.units import LIMITS
from ragtune.data.corpus import Document
from ragtune.embedders.candidates import VECTOR, normalised
from ragtune.fusion.rrf import RRFFusion
from ragtune.retrievers.signalled import with_signals

Scores = Sequence[float | None]

VECTOR_SIGNAL = "vectors"
"""Name of the signal that a query's vector makes with those of the documents."""

_DECIMALS = 6  # cosines are rounded to so many, so that the noise of float32 does not decide between equal documents


def candidates(
    documents: Sequence[str | Mapping[str, Any] | Document],
    scores: Scores | Mapping[str, Scores] | None,
    vectors: Sequence[Any] | None,
    signals: Mapping[str, Scores] | None = None,
    query_vector: Any = None,
) -> Sequence[ScoredDocument]:
    """The documents best first by the first stages and signals, each with its position among those given as its id."""
    texts = [_text(i, document) for i, document in enumerate(listed(documents))]
    table: Any = vectors
    vectors = table.to_numpy() if _is_table(table) else vectors
    scores, signals = _by_name(scores), _by_name(signals)
    metadata = _metadata(vectors, len(texts))
    further = _signals(signals, vectors, query_vector, len(texts))
    found = _found(texts, metadata, scores)
    return with_signals(found, further, RRFFusion()) if further else found


def listed(documents: Any) -> list[Any]:
    """The documents in their order: those of a list, an array, a pandas Series, or anything else that has an order."""
    if _is_table(documents):
        raise InputError(
            "documents of type DataFrame: allowed is a list of texts, dicts or Documents, e.g. frame['text'] or "
            "frame.to_dict('records')"
        )
    if isinstance(documents, str | bytes | Mapping | Set) or not isinstance(documents, Iterable):
        raise InputError(
            f"documents of type {type(documents).__name__}: allowed is a list of texts, dicts or Documents"
        )
    return as_list(documents)


def _is_table(values: Any) -> bool:
    return hasattr(values, "columns") and hasattr(values, "to_numpy")


def _by_name(values: Any) -> Any:
    """The columns of a DataFrame by name; anything else as it is."""
    return {name: values[name] for name in values.columns} if _is_table(values) else values


def _found(
    texts: Sequence[str], metadata: Sequence[dict[str, Any]], scores: Scores | Mapping[str, Scores] | None
) -> Sequence[ScoredDocument]:
    """What no stage found stands behind the rest, as low as the worst that each found: 0 may be a good score."""
    facts = [Facts(str(i), well_formed(text), metadata[i], 0) for i, text in enumerate(texts)]
    columns: dict[str, list[float]] = _columns(scores, len(texts))
    if not columns:
        return _hits(facts, [-math.log1p(rank) for rank in range(1, len(facts) + 1)], None)
    lists = {name: _best_first(facts, name, column) for name, column in columns.items()}
    found = lists[next(iter(lists))] if len(lists) == 1 else RRFFusion().fuse(lists)
    seen = {*found.doc_ids} if isinstance(found, Hits) else {document.id for document in found}
    missed = [one for one in facts if one.id not in seen]
    if isinstance(found, Hits):
        lowest = found.scores[-1] if found else 0.0
        return _hits([*found.facts, *missed], [*found.scores, *([lowest] * len(missed))], found.source)
    behind = _hits(missed, [found[-1].score if found else 0.0] * len(missed), None)
    sources = {name: ranked.scores[-1] for name, ranked in lists.items() if ranked}
    return [*found, *(document.model_copy(update={"sources": dict(sources)}) for document in behind)]


def _best_first(facts: Sequence[Facts], name: str, column: Sequence[float]) -> Hits:
    """Those that the stage found, equal ones as given."""
    order = sorted((i for i, score in enumerate(column) if not math.isnan(score)), key=lambda i: -column[i])
    return _hits([facts[i] for i in order], [column[i] for i in order], name)


def _hits(facts: Sequence[Facts], scores: Sequence[float], name: str | None) -> Hits:
    return Hits([one.id for one in facts], scores, facts, name)


def _text(i: int, document: Any) -> str:
    if isinstance(document, str):
        return document
    if isinstance(document, Document):
        return document.content
    if isinstance(document, Mapping):
        title, text = document.get("title"), document.get("text")
        if is_missing(title) or title != title or not title:  # pandas writes NaN where there is no title
            title = ""
        if isinstance(title, str) and isinstance(text, str):
            return f"{title} {text}".strip()
    raise InputError(f"document {i} is {quoted(document)}: allowed is a text, a Document, or a dict with a 'text'")


def _metadata(vectors: Sequence[Any] | None, count: int) -> list[dict[str, Any]]:
    if vectors is None:
        return [{} for _ in range(count)]
    if not hasattr(vectors, "__len__"):
        raise InputError(f"vectors of type {type(vectors).__name__}: allowed is one a document")
    if len(vectors) != count:
        raise InputError(f"{len(vectors)} vectors for {count} documents: allowed is one a document")
    return [{VECTOR: vector} for vector in vectors]


def _columns(scores: Scores | Mapping[str, Scores] | None, count: int) -> dict[str, list[float]]:
    if scores is None:
        return {}
    named = scores if isinstance(scores, Mapping) else {ORIGINAL: scores}
    return {str(name): _column(f"scores of {str(name)!r}", column, count) for name, column in named.items()}


def _column(what: str, scores: Any, count: int) -> list[float]:
    column = [math.nan if score is None else score for score in _numbers(what, scores)]
    if len(column) != count:
        raise InputError(f"{len(column)} {what} for {count} documents: allowed is one a document")
    if np.isinf(column).any():
        raise InputError(f"{what} hold an infinite number: allowed are finite ones, and None for not found")
    return column


def _numbers(what: str, values: Any) -> list[float | None]:
    """A caller's numbers, as often as they are looked at; no text is one, and keys are in no order of documents."""
    try:
        if not isinstance(values, str | bytes | Mapping | Set):
            numbers = as_list(values)
            if not any(issubclass(kind, str | bytes) for kind in {*map(type, numbers)}):
                return [None if value is None else float(value) for value in numbers]
    except (TypeError, ValueError, OverflowError):
        pass
    raise InputError(f"{what} are {quoted(values)}: allowed is a list of numbers")


def _signals(
    signals: Mapping[str, Scores] | None, vectors: Sequence[Any] | None, query_vector: Any, count: int
) -> dict[str, dict[str, float]]:
    """``{id: value}`` by the name of the signal."""
    if not isinstance(signals, Mapping | None):
        raise InputError(f"signals={quoted(signals)}: allowed is a dict of a list of numbers by name")
    known: dict[str, dict[str, float]] = {}
    for name, column in (signals or {}).items():
        what = f"values of signal {str(name)!r}"
        numbers = _numbers(what, column)
        given = {i: value for i, value in enumerate(_column(what, numbers, count)) if numbers[i] is not None}
        if (nan := next((i for i, value in given.items() if math.isnan(value)), None)) is not None:
            raise InputError(f"signal {str(name)!r}: value nan of document {nan}: allowed is a finite number, or None")
        known[str(name)] = {str(i): value for i, value in given.items()}
    if query_vector is None:
        return known
    if VECTOR_SIGNAL in known:
        raise InputError(f"a query_vector, and signals have {VECTOR_SIGNAL!r}: allowed is one of them")
    return known | {VECTOR_SIGNAL: _cosines(vectors, query_vector)}


def _cosines(vectors: Sequence[Any] | None, query_vector: Any) -> dict[str, float]:
    """The cosine of each document's vector with the query's, those of zeros left out."""
    if vectors is None:
        raise InputError("a query_vector without vectors: allowed is one with a vector for each document")
    given = {str(i): vector for i, vector in enumerate(vectors) if vector is not None}
    if not given:
        return {}
    rows = normalised(list(given.values()))
    try:
        query = normalised([query_vector])
    except InputError:
        raise InputError(f"query_vector={quoted(query_vector)}: allowed is a list of finite numbers") from None
    if rows.shape[1] != query.shape[1]:
        raise InputError(
            f"query_vector has {query.shape[1]} numbers and the documents' vectors have {rows.shape[1]}: allowed are "
            "vectors of one embedder"
        )
    cosines = np.round(rows @ query[0], _DECIMALS).tolist()
    return {doc_id: cosines[i] for i, doc_id in enumerate(given) if rows[i].any() and query.any()}


def budget_of(limits: Mapping[str, float | None]) -> CostBudget:
    """The budget of these limits by unit, e.g. ``{"docs": 10, "ms": 200}``; None limits nothing."""
    if not isinstance(limits, Mapping):
        raise ConfigError(f"budget={quoted(limits)}: allowed is a dict of {', '.join(LIMITS)}")
    unknown = [name for name in limits if name not in LIMITS]
    given = {LIMITS[name]: limit for name, limit in limits.items() if name in LIMITS and limit is not None}
    if unknown or not given:
        problem = f"unknown limit {', '.join(map(repr, unknown))}" if unknown else "no budget given"
        raise ConfigError(f"{problem}: name at least one of {', '.join(LIMITS)}")
    try:
        # Nothing is assembled from these tokens, so the reranker may have them all.
        return CostBudget.only(**given, assembly_token_buffer=0)
    except ValidationError as error:
        first = error.errors()[0]
        name = next(name for name, field in LIMITS.items() if field in first["loc"])
        raise ConfigError(f"{name}={first['input']!r}: {first['msg']}") from None
