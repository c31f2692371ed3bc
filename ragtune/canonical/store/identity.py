"""Checks that a collection fits an embedder and an analyzer, and the errors of those that do not."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import ValidationError

from ragtune.canonical.analyzers import DEFAULT, Analyzer, load_analyzer
from ragtune.canonical.embedding import dimension
from ragtune.canonical.normalization import check_string
from ragtune.canonical.types import Collection
from ragtune.core.errors import CollectionMismatchError, ConfigError, InputError, UnknownCollectionError
from ragtune.core.interfaces import BaseEmbedder


def describe(name: str, embedder: BaseEmbedder, analyzer: str | None) -> Collection:
    """The collection that would be created."""
    try:
        return Collection(
            name=check_string(name, "collection"),
            embed_model=check_string(embedder.name, "embed_model"),
            embed_dims=dimension(embedder),
            analyzer=load_analyzer(DEFAULT if analyzer is None else analyzer).identity,
        )
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"collection {first['loc'][0]}={str(first['input'])[:100]!r}: {first['msg']}") from error


def check_same(kept: Collection, wanted: Collection, analyzer: str | None) -> Analyzer:
    """Check a collection against the one that would be created, and return its analyzer.

    Args:
        kept: the existing collection.
        wanted: the collection that would be created.
        analyzer: name of the chosen analyzer; None takes the collection's own.
    """
    if (kept.embed_model, kept.embed_dims) != (wanted.embed_model, wanted.embed_dims):
        raise CollectionMismatchError(
            f"collection {kept.name!r} holds vectors of {kept.embed_model!r}, {kept.embed_dims} dims; "
            f"the embedder is {wanted.embed_model!r}, {wanted.embed_dims} dims"
        )
    if analyzer is not None and kept.analyzer != wanted.analyzer:
        raise CollectionMismatchError(
            f"collection {kept.name!r} is analyzed by {kept.analyzer!r}; the chosen analyzer is {wanted.analyzer!r}"
        )
    return _installed(kept)


def _installed(kept: Collection) -> Analyzer:
    try:
        found = load_analyzer(kept.analyzer.partition(" ")[0])
    except ConfigError as error:
        raise CollectionMismatchError(f"collection {kept.name!r} is analyzed by {kept.analyzer!r}: {error}") from None
    if found.identity != kept.analyzer:
        raise CollectionMismatchError(
            f"collection {kept.name!r} is analyzed by {kept.analyzer!r}; this installation has {found.identity!r}"
        )
    return found


def unknown(name: str, known: Iterable[str]) -> UnknownCollectionError:
    """The error for a collection that does not exist."""
    return UnknownCollectionError(f"no collection {name!r}: there are {', '.join(map(repr, known)) or 'none'}")


def gone(name: str) -> UnknownCollectionError:
    """The error for a collection that was dropped while it was open."""
    return UnknownCollectionError(f"no collection {name!r} any more: it was dropped")
