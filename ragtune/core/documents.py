"""Documents of components, checked at the door: what comes out of retrieval, expansion and assembly."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import chain

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
    return all_sound(list(found))


def all_sound(docs: list[ScoredDocument]) -> list[ScoredDocument]:
    """The documents, each :func:`sound`; most need no second look, which is seen faster column by column.

    Raises:
        InvalidScoreError, TypeError, ValueError: as :func:`sound` does.
    """
    return docs if _is_nothing_wrong(docs) else [sound(doc) for doc in docs]


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


def _is_nothing_wrong(docs: Sequence[ScoredDocument]) -> bool:
    """Whether every document is sound as it is; False where that takes a closer look."""
    if not _are(ScoredDocument, docs) or not _are(dict, sources := [doc.sources for doc in docs]):
        return False
    texts = [*(doc.id for doc in docs), *(doc.content for doc in docs), *set(chain.from_iterable(sources))]
    numbers = [*(doc.score for doc in docs), *(doc.original_score for doc in docs)]
    numbers += (score for doc in docs for score in (doc.fusion_score, doc.reranker_score) if score is not None)
    numbers += chain.from_iterable(by_source.values() for by_source in sources)
    counts = [doc.token_count for doc in docs]
    return (
        _are(str, texts)
        and _are(float, numbers)
        and _are(int, counts)
        and _are(dict, [doc.metadata for doc in docs])
        and all(map(math.isfinite, numbers))
        and min(counts, default=0) >= 0
        and all(_is_well_formed(text) for text in texts if not text.isascii())
    )


def _are(kind: type, values: Iterable[object]) -> bool:
    """Whether all of them are of that very type."""
    return set(map(type, values)) <= {kind}


def _is_well_formed(text: str) -> bool:
    return text.isascii() or well_formed(text) == text
