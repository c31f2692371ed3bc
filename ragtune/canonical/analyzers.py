"""Text analyses by name: words, stopwords and stems. A collection keeps its analysis for good."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version

from ragtune.core.errors import ConfigError
from ragtune.data.text import STOPWORDS, Stems, plain_id, plain_terms
from ragtune.data.text.analysis import all_words, words_and_bigrams

DEFAULT = "english"
"""The analyzer of a collection for which none is chosen."""

_LATEST = "2"


@dataclass(frozen=True)
class Analyzer:
    """A text analysis.

    Attributes:
        name: language and version, e.g. ``english-2``.
        details: stopwords, and the stemmer with its version, on which the terms depend as well.
        terms: function that returns a text's terms in order, with repetitions.
    """

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
    """The analyzer of a name, in its latest version if the name has no number.

    - A language has stems without its stopwords, and pairs of neighbours for runs of Han, kana and Hangul.
    - ``cjk`` has words and such pairs; ``none`` has words.
    - ``english-1`` has words of two characters or more, which end at combining marks. All others have words of any
      length, ``C++`` and ``C#`` too, in compatibility form (NFKC) with their combining marks.
    """
    language, _, number = name.partition("-")
    if name == "english-1":
        return Analyzer(name, plain_id(), plain_terms)
    if language not in languages() or number not in ("", _LATEST):
        raise ConfigError(f"analyzer={name!r}: allowed are english-1, {', '.join(languages())}")
    full = f"{language}-{_LATEST}"
    if language == "none":
        return Analyzer(full, "words", all_words)
    if language == "cjk":
        return Analyzer(full, "bigrams", words_and_bigrams)
    stopwords = _stopwords(language)
    listed = hashlib.sha256(" ".join(sorted(stopwords)).encode()).hexdigest()[:8]
    details = f"stopwords={len(stopwords)}:{listed} snowball={version('PyStemmer')}"
    return Analyzer(full, details, _stemmed(words_and_bigrams, Stems(language, stopwords)))


def _stemmed(words: Callable[[str], list[str]], stems: Stems) -> Callable[[str], list[str]]:
    return lambda text: [stem for word in words(text) if (stem := stems[word])]


def _stopwords(language: str) -> Collection[str]:
    if language == "english":
        return STOPWORDS
    from bm25s import stopwords  # which has a list for some languages

    return frozenset(getattr(stopwords, f"STOPWORDS_{language.upper()}", ()))
