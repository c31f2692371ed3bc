"""Text analyses by name, and checks that a collection fits an embedder and an analysis, which it keeps for good."""

from __future__ import annotations

import hashlib
import runpy
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ragtune.canonical.embedding import dimension
from ragtune.canonical.normalization import check_string
from ragtune.canonical.types import Collection
from ragtune.core.errors import CollectionMismatchError, ConfigError, InputError, UnknownCollectionError
from ragtune.core.interfaces import BaseEmbedder
from ragtune.data.text import STOPWORDS, Stems, all_words, words_and_bigrams

DEFAULT = "english"
"""The analyzer of a collection for which none is chosen."""

_LATEST = "2"


@dataclass(frozen=True)
class Analyzer:
    """A text's terms in order, with repetitions; ``name`` is language and version, e.g. ``english-2``."""

    name: str
    details: str
    terms: Callable[[str], list[str]] = field(repr=False, compare=False)

    @property
    def identity(self) -> str:
        """Name and details; equal for analyzers with the same terms for every text."""
        return f"{self.name} {self.details}"


@cache
def languages() -> tuple[str, ...]:
    """The allowed names: languages with a Snowball stemmer, ``cjk``, and ``none``."""
    import Stemmer

    return (*sorted(Stemmer.algorithms()), "cjk", "none")


@cache
def load_analyzer(name: str) -> Analyzer:
    """The analyzer of a language, ``cjk`` or ``none``, in its latest version if the name has no number."""
    language, _, number = name.partition("-")
    if language not in languages() or number not in ("", _LATEST):
        raise ConfigError(f"analyzer={name!r}: allowed are {', '.join(languages())}")
    full = f"{language}-{_LATEST}"
    if language == "none":
        return Analyzer(full, "words", all_words)
    if language == "cjk":
        return Analyzer(full, "bigrams", words_and_bigrams)
    stopwords = _stopwords(language)
    listed = hashlib.sha256(" ".join(sorted(stopwords)).encode()).hexdigest()[:8]
    details = f"stopwords={len(stopwords)}:{listed} snowball={version('PyStemmer')}"
    stems = Stems(language, stopwords)
    return Analyzer(full, details, lambda text: [stem for word in words_and_bigrams(text) if (stem := stems[word])])


def _stopwords(language: str) -> frozenset[str]:
    if language == "english":
        return frozenset(STOPWORDS)
    return stopword_list(language.upper())


@cache
def stopword_list(name: str) -> frozenset[str]:
    """A list of bm25s, e.g. ``GERMAN``; empty if it has none."""
    return frozenset(_lists().get(f"STOPWORDS_{name}", ()))


@cache
def _lists() -> dict[str, Any]:
    spec = find_spec("bm25s")
    assert spec is not None and spec.origin is not None  # noqa: S101, PT018 -- for the type checker
    return runpy.run_path(str(Path(spec.origin).with_name("stopwords.py")))  # importing bm25s loads numba


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
    """Check a collection against the one that would be created, and return its analyzer; None takes its own."""
    if not same_model(kept.embed_model, wanted.embed_model) or kept.embed_dims != wanted.embed_dims:
        raise CollectionMismatchError(
            f"collection {kept.name!r} holds vectors of {kept.embed_model!r}, {kept.embed_dims} dims; "
            f"the embedder is {wanted.embed_model!r}, {wanted.embed_dims} dims"
        )
    if analyzer is not None and kept.analyzer != wanted.analyzer:
        raise CollectionMismatchError(
            f"collection {kept.name!r} is analyzed by {kept.analyzer!r}; the chosen analyzer is {wanted.analyzer!r}"
        )
    try:
        found = load_analyzer(kept.analyzer.partition(" ")[0])
    except ConfigError:
        found = None
    if found is None or found.identity != kept.analyzer:
        has = "no such analyzer" if found is None else repr(found.identity)
        raise CollectionMismatchError(
            f"collection {kept.name!r} is analyzed by {kept.analyzer!r}; this installation has {has}: drop the "
            "collection, and ingest its documents again"
        )
    return found


def same_model(one: str, other: str) -> bool:
    """Whether two names are of the same model: the words before a digest do not matter."""
    return one[one.find("sha256:") :] == other[other.find("sha256:") :] if "sha256:" in one else one == other


def unknown(name: str, known: Iterable[str]) -> UnknownCollectionError:
    """The error for a collection that does not exist."""
    return UnknownCollectionError(f"no collection {name!r}: there are {', '.join(map(repr, known)) or 'none'}")


def gone(name: str) -> UnknownCollectionError:
    """The error for a collection that was dropped while it was open."""
    return UnknownCollectionError(f"no collection {name!r} any more: it was dropped")
