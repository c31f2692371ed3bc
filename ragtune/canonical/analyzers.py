"""Text analyses that a collection chooses by name and keeps: what is a word, what is left out, what is a stem."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version

from ragtune.core.errors import ConfigError
from ragtune.data.text import STOPWORDS, Stems, plain_id, plain_terms
from ragtune.data.text.words import all_words, words_and_bigrams

DEFAULT = "english"
"""The analyzer of a collection for which none is chosen."""

_LATEST = "2"
_LISTED = (
    "danish",
    "dutch",
    "french",
    "german",
    "italian",
    "norwegian",
    "portuguese",
    "russian",
    "spanish",
    "swedish",
    "turkish",
)
"""Languages whose stopwords bm25s ships; the other languages but English have none."""


@dataclass(frozen=True)
class Analyzer:
    """A text analysis.

    Attributes:
        name: language and version, e.g. ``english-2``.
        details: what else its terms depend on: stopwords, and the stemmer with its version.
        terms: function that gives a text's terms in order, with repetitions.
    """

    name: str
    details: str
    terms: Callable[[str], list[str]] = field(repr=False, compare=False)

    @property
    def identity(self) -> str:
        """Equal for analyzers whose terms are the same for every text."""
        return f"{self.name} {self.details}"


@cache
def languages() -> tuple[str, ...]:
    """What may be chosen: the languages that have a Snowball stemmer, ``cjk``, and ``none``."""
    import Stemmer

    return (*sorted(Stemmer.algorithms()), "cjk", "none")


@cache
def load_analyzer(name: str) -> Analyzer:
    """The analyzer of a name, in its latest version if the name has none.

    ``english-1`` has words of two characters or more and ends them at combining marks. All others have words of any
    length, ``C++`` and ``C#`` too, in compatibility form (NFKC) with their combining marks. A language stems them,
    leaves its stopwords out, and like ``cjk`` has pairs of neighbours for runs of Han, kana and Hangul. ``cjk`` has
    neither stems nor stopwords; ``none`` has words as they are.

    Raises:
        ConfigError: on a name that is not allowed.
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
    if language not in _LISTED:
        return ()
    from bm25s import stopwords

    return frozenset(getattr(stopwords, f"STOPWORDS_{language.upper()}"))
