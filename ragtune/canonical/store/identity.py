"""Which collection a name and an embedder mean, and what is said when they do not fit."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import ValidationError

from ragtune.canonical.embedding import dimension
from ragtune.canonical.normalization import check_string
from ragtune.canonical.types import Collection
from ragtune.core.errors import CollectionMismatchError, InputError, UnknownCollectionError
from ragtune.core.interfaces import BaseEmbedder


def describe(name: str, embedder: BaseEmbedder) -> Collection:
    """The collection that ``embedder`` would fill.

    Raises:
        InputError: on a name that is not allowed, or an embedder whose name or dims are not.
    """
    try:
        return Collection(
            name=check_string(name, "collection"),
            embed_model=check_string(embedder.name, "embed_model"),
            embed_dims=dimension(embedder),
        )
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"collection {first['loc'][0]}={str(first['input'])[:100]!r}: {first['msg']}") from error


def check_same(kept: Collection, wanted: Collection) -> None:
    """Check that the embedder's vectors are those of the collection.

    Raises:
        CollectionMismatchError: if they are not; the message names model and dims of both.
    """
    if kept != wanted:
        raise CollectionMismatchError(
            f"collection {kept.name!r} holds vectors of {kept.embed_model!r}, {kept.embed_dims} dims; "
            f"the embedder is {wanted.embed_model!r}, {wanted.embed_dims} dims"
        )


def unknown(name: str, known: Iterable[str]) -> UnknownCollectionError:
    """The error that names the collection and those that exist."""
    return UnknownCollectionError(f"no collection {name!r}: there are {', '.join(map(repr, known)) or 'none'}")


def gone(name: str) -> UnknownCollectionError:
    """The error for a collection that was dropped while it was open."""
    return UnknownCollectionError(f"no collection {name!r} any more: it was dropped")
