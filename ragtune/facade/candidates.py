"""What a caller hands in, checked and put into the first stage's order."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ragtune.core.errors import InputError
from ragtune.core.plain import quoted
from ragtune.core.types import ScoredDocument
from ragtune.data.corpus import Document
from ragtune.embedders.candidates import VECTOR
from ragtune.fusion.rrf import RRFFusion

Scores = Sequence[float | None]


def candidates(
    documents: Sequence[str | Mapping[str, Any] | Document],
    scores: Scores | Mapping[str, Scores] | None,
    vectors: Sequence[Any] | None,
) -> list[ScoredDocument]:
    """The documents best first by the first stage, each with its position among those given as its id.

    Args:
        documents: a text, a ``Document``, or a dict with ``text`` and, if it has one, ``title``.
        scores: one number a document, higher is better, or a column of them for each first stage by name; None (or
            NaN) where a stage did not find the document. Columns are fused by reciprocal ranks. None: the order counts.
        vectors: one vector a document, or None.

    Raises:
        InputError: naming what is wrong and with which document.
    """
    if isinstance(documents, str | bytes | Mapping) or not isinstance(documents, Sequence):
        raise InputError(
            f"documents of type {type(documents).__name__}: allowed is a list of texts, dicts or Documents"
        )
    texts = [_text(i, document) for i, document in enumerate(documents)]
    metadata = _metadata(vectors, len(texts))
    columns = _columns(scores, len(texts))
    plain = [ScoredDocument(id=str(i), content=text, metadata=metadata[i]) for i, text in enumerate(texts)]
    if not columns:
        return [_scored(document, -math.log1p(rank)) for rank, document in enumerate(plain, start=1)]
    lists = {name: _best_first(plain, column) for name, column in columns.items()}
    found = lists[next(iter(lists))] if len(lists) == 1 else RRFFusion().fuse(lists)
    seen = {document.id for document in found}
    # What no stage found stands behind the rest, and scores as low as the worst that each found: 0 may be a good score.
    lowest = {name: ranked[-1].score for name, ranked in lists.items() if ranked}
    score = found[-1].score if found else 0.0
    missed = [_scored(document, score) for document in plain if document.id not in seen]
    return [*found, *(document.model_copy(update={"sources": lowest}) for document in missed)]


def _best_first(documents: Sequence[ScoredDocument], column: Sequence[float]) -> list[ScoredDocument]:
    """Those that the stage found, equal ones as given."""
    order = sorted((i for i, score in enumerate(column) if not math.isnan(score)), key=lambda i: -column[i])
    return [_scored(documents[i], column[i]) for i in order]


def _scored(document: ScoredDocument, score: float) -> ScoredDocument:
    return document.model_copy(update={"score": score, "original_score": score})


def _text(i: int, document: Any) -> str:
    if isinstance(document, Document):
        return document.content
    if isinstance(document, Mapping):
        title, text = document.get("title") or "", document.get("text")
        if isinstance(title, str) and isinstance(text, str):
            return f"{title} {text}".strip()
    if isinstance(document, str):
        return document
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
    named = scores if isinstance(scores, Mapping) else {"original": scores}
    return {str(name): _column(str(name), column, count) for name, column in named.items()}


def _column(name: str, scores: Scores, count: int) -> list[float]:
    try:
        column = [math.nan if score is None else float(score) for score in scores]
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"scores of {name!r} are {quoted(scores)}: allowed is a list of numbers") from None
    if len(column) != count:
        raise InputError(f"{len(column)} scores of {name!r} for {count} documents: allowed is one a document")
    if np.isinf(column).any():
        raise InputError(f"scores of {name!r} hold an infinite number: allowed are finite ones, and None for not found")
    return column
