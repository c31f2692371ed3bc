"""The one text analysis of every lexical component: lower case, words of two characters or more, stopwords, stems.

Lexical retrieval, relevance feedback and TF-IDF must agree on what a term is, or a term that one of them proposes is
unknown to the next.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.metadata import version

STOPWORDS = frozenset(
    re.findall(
        r"\w+",
        "a an and are as at be but by for if in into is it no not of on or such that the their then there these they "
        "this to was will with",
    )
)
"""Lucene's English list (``EnglishAnalyzer.ENGLISH_STOP_WORDS_SET``), 33 words."""

_MOST_WORDS = 500_000
_WORD = re.compile(r"\b\w\w+\b")


class _Stems(dict[str, str]):
    """Word -> stem, the empty string for a stopword; filled on demand, since words repeat and stemming is slow.

    Begun anew when it is full, or a service that is asked ever new words would grow for ever.
    """

    def __init__(self) -> None:
        import Stemmer

        super().__init__()
        self._stem = Stemmer.Stemmer("english").stemWord

    def __missing__(self, word: str) -> str:
        stem = "" if word in STOPWORDS else str(self._stem(word))
        if len(self) >= _MOST_WORDS:
            self.clear()
        self[word] = stem
        return stem


@cache
def _stems() -> _Stems:
    return _Stems()


@cache
def analyzer_id() -> str:
    """Identifies this analysis in cache keys; the stems depend on the stemmer's version."""
    return f"lucene33-snowball-english-{version('PyStemmer')}"


def terms(text: str) -> list[str]:
    """The text's terms (Snowball English stems, stopwords removed), in order, with repetitions."""
    stems = _stems()
    return [stem for word in _WORD.findall(text.lower()) if (stem := stems[word])]


def words_and_terms(text: str) -> list[tuple[str, str]]:
    """The text's terms, in order, each behind the lower-case word that it comes from: ``(word, term)``."""
    stems = _stems()
    return [(word, stem) for word in _WORD.findall(text.lower()) if (stem := stems[word])]
