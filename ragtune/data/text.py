"""The one text analysis of the harness: lower case, words of two characters or more, stopwords, stems.

Scripts that put no blanks between words (Chinese, Japanese, Thai and their kin, Korean too) have pairs of neighbouring
characters for words. The stopwords and stems are English, and leave other languages as they are.

Lexical retrieval, relevance feedback and TF-IDF must agree on what a term is, or a term that one of them proposes is
unknown to the next. Collections of ragd choose theirs: :mod:`ragtune.canonical.analyzers`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence
from functools import cache, partial
from importlib.metadata import version
from itertools import groupby, pairwise

_CJK = (
    "\u3005-\u3007\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\U00020000-\U0003ffff"
)
_IS_CJK = re.compile(f"[{_CJK}]")
_OTHERS = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ecf\u0edc-\u0edf"  # Thai, Lao
    "\u1000-\u103f\u104c-\u108f\u109a-\u109d\ua9e0-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa7f"  # Burmese and its kin
    "\u1780-\u17d3\u17d7\u17dc\u1950-\u197f\u1980-\u19cf\u1a20-\u1a7f\uaa80-\uaadf"  # Khmer, Tai
    "\u1b05-\u1b4b\ua000-\ua48c\ua984-\ua9c0"  # Balinese, Yi, Javanese
)
_UNSPACED = _CJK + _OTHERS
"""Letters and marks of scripts without blanks between words, and Hangul, whose words carry their particles."""
_IS_UNSPACED = re.compile(f"[{_UNSPACED}\uff66-\uff9f]")  # kana of half width, too
_FIRST_MARK, _LAST_MARK = 0x0300, 0x1F000
_JOINERS = {0x200C: None, 0x200D: None}  # zero width; they shape letters and end no word
_LANGUAGE = r"(?<!\w)[a-z](?:\+\+|#(?!\w))"  # C++, C#, and their kind
_PLAIN = re.compile(r"\b\w\w+\b")
_COMMON = "\u2009\u2010\u2013\u2014\u2018\u2019\u201c\u201d\u2022\u2026\u2212\u2264\u2265"
_LATIN = "".join(chr(i).lower() if chr(i).isalnum() or chr(i) == "_" else " " for i in range(256)).encode("latin-1")


def _latin_letters(text: str) -> str | None:
    """A text in Latin-1 and common marks, in lower case with blanks for marks; None of any other text."""
    if not text.isascii():
        for mark in _COMMON:
            text = text.replace(mark, " ")
    try:
        return text.encode("latin-1").translate(_LATIN).decode("latin-1")
    except UnicodeEncodeError:
        return None


def plain_words(text: str) -> list[str]:
    """Runs of characters, of which single ones have no term; combining marks end a run, as in version 1."""
    letters = _latin_letters(text)
    return _PLAIN.findall(text.lower()) if letters is None else letters.split()


def marked_words(text: str) -> list[str]:
    """As :func:`plain_words`, with their combining marks, such as the vowel signs of Hindi."""
    letters = _latin_letters(text)
    return _with_marks().findall(text.lower()) if letters is None else letters.split()


def words_or_pairs(text: str) -> list[str]:
    """As :func:`marked_words`, and pairs of neighbouring characters (NFKC) where a script shows no words."""
    if (letters := _latin_letters(text)) is not None:
        return letters.split()
    found: list[str] = []
    if not _IS_UNSPACED.search(text):
        for is_ascii, parts in groupby(text.split(), str.isascii):  # a pattern takes ten times as long
            part = " ".join(parts)
            found += (words_or_pairs(part) if is_ascii else None) or _with_marks().findall(part.lower())
        return found
    for run, word in _unspaced_or_marked().findall(_folded(text)):
        found += [word] if word else _pairs(_characters().findall(run))
    return found


def words_in_bytes(text: str) -> bytes:
    """The words of :func:`words_or_pairs` in UTF-8, with blanks between them, in any number."""
    letters = _latin_letters(text)
    return (" ".join(words_or_pairs(text)) if letters is None else letters).encode("utf-8", "surrogatepass")


def _pairs(characters: Sequence[str]) -> list[str]:
    return list(map("".join, pairwise(characters))) if len(characters) > 1 else list(characters)


def all_words(text: str) -> list[str]:
    """Words of any length in lower case and NFKC, with marks, ``++`` and ``#``; no letter after an apostrophe."""
    if text.isascii():
        return _ascii_of_any_length().findall(text.lower())
    return _of_any_length().findall(_folded(text))


def words_and_bigrams(text: str) -> list[str]:
    """As :func:`all_words`, but runs of Han, kana and Hangul are pairs of neighbours; one alone is a word."""
    if not _IS_CJK.search(text):
        return all_words(text)
    found: list[str] = []
    for run, word in _mixed().findall(_folded(text)):
        found += [word] if word else [run] if len(run) == 1 else map("".join, pairwise(run))
    return found


def _folded(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).translate(_JOINERS).lower()
    return folded.replace("i\u0307", "i")  # what Python makes of a Turkish capital i


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """The pattern in which MARKS stands for all combining marks."""
    return re.compile(pattern.replace("MARKS", _marks()) if "MARKS" in pattern else pattern)


@cache
def _marks() -> str:
    places = {place for place in range(_FIRST_MARK, _LAST_MARK) if unicodedata.category(chr(place)).startswith("M")}
    starts = sorted(place for place in places if place - 1 not in places)
    ends = sorted(place for place in places if place + 1 not in places)
    return "".join(f"{chr(start)}-{chr(end)}" for start, end in zip(starts, ends, strict=True))


def _any_length(character: str) -> str:
    alone = r"(?<!\w['\u2019])[^\W_](?!['\u2019]\w)"
    return f"{_LANGUAGE}|{character}{{2,}}|{alone}"


_with_marks = partial(_compiled, r"[\wMARKS]{2,}")
_unspaced_or_marked = partial(_compiled, rf"([{_UNSPACED}]+)|((?:(?![{_UNSPACED}])[\wMARKS]){{2,}})")
_characters = partial(_compiled, ".[MARKS]*")  # each together with the marks that follow it, as in Thai
_ascii_of_any_length, _of_any_length = (partial(_compiled, _any_length(one)) for one in (r"\w", r"[\wMARKS]"))
_OTHER = _any_length(rf"(?:(?![{_CJK}])[\wMARKS])")
_mixed = partial(_compiled, f"([{_CJK}]+)|({_OTHER})")

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
    """Word -> stem, the empty string for a stopword; filled on demand and begun anew when full."""

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
    return Stems(stopwords=STOPWORDS | set(map(chr, range(256))))


@cache
def analyzer_id() -> str:
    """Identifies this analysis in cache keys; the stems depend on the stemmer's version."""
    return f"lucene33-marks-pairs-snowball-english-{version('PyStemmer')}"


def terms(text: str) -> list[str]:
    """The text's terms (Snowball English stems, stopwords removed), in order, with repetitions.

    Examples:
        >>> from ragtune.data.text import terms
        >>> terms("Green teas are brewed")
        ['green', 'tea', 'brew']
    """
    return [term for _, term in _stemmed(words_or_pairs(text))]


def term_of(word: str) -> str:
    """The term of a word; empty of a stopword and of a single character of Latin-1."""
    return _stems()[word]


def marked_terms(text: str) -> list[str]:
    """As :func:`terms`, but without pairs: version 2 of the analysis, which the pinned answers of ragd depend on."""
    return [term for _, term in _stemmed(marked_words(text))]


def plain_terms(text: str) -> list[str]:
    """As :func:`terms`, but combining marks end a word: version 1 of the analysis, for what was made with it."""
    return [term for _, term in _stemmed(plain_words(text))]


@cache  # the version is read from a file, and an ingestion asks for it with each chunk
def plain_id() -> str:
    """Identifies the analysis of :func:`plain_terms`."""
    return f"lucene33-snowball-english-{version('PyStemmer')}"


def words_and_terms(text: str) -> list[tuple[str, str]]:
    """The text's terms, in order, each behind the lower-case word that it comes from: ``(word, term)``."""
    return _stemmed(words_or_pairs(text))


def _stemmed(words: Sequence[str]) -> list[tuple[str, str]]:
    stems = _stems()
    return [(word, stem) for word in words if (stem := stems[word])]
