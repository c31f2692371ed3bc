"""The one text analysis of the harness: lower case, words of two characters or more, stopwords, stems.

Scripts that put no blanks between words (Chinese, Japanese, Thai and their kin, Korean too) have pairs of neighbouring
characters for words. The stopwords and stems are English, and leave other languages as they are.

Lexical retrieval, relevance feedback and TF-IDF must agree on what a term is, or a term that one of them proposes is
unknown to the next. Collections of ragd choose theirs: :mod:`ragtune.canonical.analyzers`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache
from importlib.metadata import version

from ragtune.data.text.words import marked_words, plain_words, words_or_pairs

STOPWORDS = frozenset(
    re.findall(
        r"\w+",
        "a an and are as at be but by for if in into is it no not of on or such that the their then there these they "
        "this to was will with",
    )
)
"""Lucene's English list (``EnglishAnalyzer.ENGLISH_STOP_WORDS_SET``), 33 words."""

_MOST_WORDS = 500_000


class Stems(dict[str, str]):
    """Word -> stem, the empty string for a stopword; filled on demand, since words repeat and stemming is slow.

    Begun anew when it is full, or a service that is asked ever new words would grow for ever.

    Args:
        language: name of a Snowball algorithm.
        stopwords: words that have no stem.
    """

    def __init__(self, language: str = "english", stopwords: Collection[str] = STOPWORDS) -> None:
        import Stemmer

        super().__init__()
        self._stem = Stemmer.Stemmer(language).stemWord
        self._stopwords = stopwords

    def __missing__(self, word: str) -> str:
        stem = "" if word in self._stopwords else str(self._stem(word))
        if len(self) >= _MOST_WORDS:
            self.clear()
        self[word] = stem
        return stem


@cache
def _stems() -> Stems:
    return Stems()


@cache
def analyzer_id() -> str:
    """Identifies this analysis in cache keys; the stems depend on the stemmer's version."""
    return f"lucene33-marks-pairs-snowball-english-{version('PyStemmer')}"


def terms(text: str) -> list[str]:
    """The text's terms (Snowball English stems, stopwords removed), in order, with repetitions."""
    stems = _stems()
    return [stem for word in words_or_pairs(text) if (stem := stems[word])]


def marked_terms(text: str) -> list[str]:
    """As :func:`terms`, but without pairs: version 2 of the analysis, which the pinned answers of ragd depend on."""
    stems = _stems()
    return [stem for word in marked_words(text) if (stem := stems[word])]


def plain_id() -> str:
    """Identifies the analysis of :func:`plain_terms`."""
    return f"lucene33-snowball-english-{version('PyStemmer')}"


def plain_terms(text: str) -> list[str]:
    """As :func:`terms`, but combining marks end a word: version 1 of the analysis, for what was made with it."""
    stems = _stems()
    return [stem for word in plain_words(text) if (stem := stems[word])]


def words_and_terms(text: str) -> list[tuple[str, str]]:
    """The text's terms, in order, each behind the lower-case word that it comes from: ``(word, term)``."""
    stems = _stems()
    return [(word, stem) for word in words_or_pairs(text) if (stem := stems[word])]
