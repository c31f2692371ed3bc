"""Documents of components, checked at the door: what comes out of retrieval, expansion and assembly."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ragtune.core.errors import InvalidScoreError
from ragtune.core.plain import quoted, well_formed
from ragtune.core.types import ScoredDocument

_KINDS = (("id", str), ("content", str), ("metadata", dict), ("token_count", int))


def checked_documents(found: Iterable[ScoredDocument]) -> list[ScoredDocument]:
    """What a component found, checked where it enters.

    Raises:
        InvalidScoreError: on a score that is not a finite number, or a token count below 0.
        TypeError: on anything but documents.
    """
    return [sound(doc) for doc in found]


def sound(doc: ScoredDocument) -> ScoredDocument:
    """A component's document, its texts :func:`~ragtune.core.plain.well_formed`; an id must be so already.

    Raises:
        InvalidScoreError: on a score that is not a finite number, or a token count below 0.
        TypeError: on anything but a document.
        ValueError: on an id that could not be written down.
    """
    if not isinstance(doc, ScoredDocument) or not all(isinstance(doc.__dict__[name], kind) for name, kind in _KINDS):
        raise TypeError(f"{type(doc).__name__} {quoted(doc)} among the documents: allowed is ScoredDocument")
    numbers = (doc.score, doc.original_score, doc.fusion_score or 0.0, doc.reranker_score or 0.0, *doc.sources.values())
    if not all(map(math.isfinite, numbers)):
        raise InvalidScoreError(f"score {doc.score!r} of document {quoted(doc.id)}: allowed is a finite number")
    if doc.token_count < 0:
        raise InvalidScoreError(f"token_count={doc.token_count!r} of document {quoted(doc.id)}: allowed is 0 or more")
    if _is_well_formed(doc.id) and all(map(_is_well_formed, (doc.content, *doc.sources))):
        return doc
    if not _is_well_formed(doc.id):
        raise ValueError(f"document id {quoted(doc.id)}: it holds half of a character (a lone surrogate)")
    sources = {well_formed(name): score for name, score in doc.sources.items()}
    return doc.model_copy(update={"content": well_formed(doc.content), "sources": sources})


def _is_well_formed(text: str) -> bool:
    return text.isascii() or well_formed(text) == text
