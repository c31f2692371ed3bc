"""Documents of components, checked at the door: what comes out of retrieval, expansion and assembly."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import chain
from operator import itemgetter

from ragtune.core.errors import InvalidScoreError
from ragtune.core.hits import Hits, are, are_sound, is_well_formed
from ragtune.core.plain import quoted, well_formed
from ragtune.core.types import ScoredDocument

_FIELDS = itemgetter(
    *("id", "content", "metadata", "token_count"),
    *("score", "original_score", "fusion_score", "reranker_score", "sources"),
)
_KINDS = (("id", str), ("content", str), ("metadata", dict), ("token_count", int))


def checked_documents(found: Iterable[ScoredDocument]) -> Sequence[ScoredDocument]:
    """What a component found, checked where it enters; :class:`~ragtune.core.hits.Hits` stay columns.

    Raises:
        InvalidScoreError: on a score that is not a finite number, or a token count below 0.
        TypeError: on anything but documents.
    """
    return found if type(found) is Hits and found.is_sound else all_sound(list(found))


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
    if is_well_formed(doc.id) and all(map(is_well_formed, (doc.content, *doc.sources))):
        return doc
    if not is_well_formed(doc.id):
        raise ValueError(f"document id {quoted(doc.id)}: it holds half of a character (a lone surrogate)")
    sources = {well_formed(name): score for name, score in doc.sources.items()}
    return doc.model_copy(update={"content": well_formed(doc.content), "sources": sources})


def _is_nothing_wrong(docs: Sequence[ScoredDocument]) -> bool:
    """Whether every document is sound as it is; False where that takes a closer look."""
    if not docs or not are(ScoredDocument, docs):
        return not docs
    ids, contents, metadata, counts, scores, originals, fusion, reranked, sources = zip(
        *map(_FIELDS, map(vars, docs)), strict=True
    )
    if not are(dict, sources):
        return False
    names = set(chain.from_iterable(sources))
    numbers = [*scores, *originals, *(score for score in fusion + reranked if score is not None)]
    numbers += chain.from_iterable(map(dict.values, sources))
    return are_sound(ids, contents, metadata, counts, numbers, names)
