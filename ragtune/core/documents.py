"""Checks of the documents that retrieval, expansion and assembly return."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ragtune.core.errors import InvalidScoreError
from ragtune.core.hits import Hits, is_well_formed
from ragtune.core.plain import quoted, well_formed
from ragtune.core.types import ScoredDocument

_KINDS = (("id", str), ("content", str), ("metadata", dict), ("token_count", int))


def checked_documents(found: Iterable[ScoredDocument]) -> Sequence[ScoredDocument]:
    """The documents that a component found, each :func:`sound`; sound :class:`~ragtune.core.hits.Hits` stay columns.

    Raises:
        InvalidScoreError: on a score that is not a finite number, or a token count below 0.
        TypeError: on anything but documents.
        ValueError: on an id that cannot be encoded.
    """
    return found if type(found) is Hits and found.is_sound else [sound(doc) for doc in found]


def sound(doc: ScoredDocument) -> ScoredDocument:
    """The document with :func:`~ragtune.core.plain.well_formed` texts; raises as :func:`checked_documents` does."""
    if not isinstance(doc, ScoredDocument) or not all(isinstance(doc.__dict__[name], kind) for name, kind in _KINDS):
        raise TypeError(f"{type(doc).__name__} {quoted(doc)} among the documents: allowed is ScoredDocument")
    numbers = (doc.score, doc.original_score, doc.fusion_score or 0.0, doc.reranker_score or 0.0, *doc.sources.values())
    if not all(map(math.isfinite, numbers)):
        raise InvalidScoreError(f"score {doc.score!r} of document {quoted(doc.id)}: allowed is a finite number")
    if doc.token_count < 0:
        raise InvalidScoreError(f"token_count={doc.token_count!r} of document {quoted(doc.id)}: allowed is 0 or more")
    if not is_well_formed(doc.id):
        raise ValueError(f"document id {quoted(doc.id)}: it holds half of a character (a lone surrogate)")
    if all(map(is_well_formed, (doc.content, *doc.sources))):
        return doc
    sources = {well_formed(name): score for name, score in doc.sources.items()}
    return doc.model_copy(update={"content": well_formed(doc.content), "sources": sources})
