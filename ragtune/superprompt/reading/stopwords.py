"""Stopwords by language: the lists of bm25s with additions."""

from __future__ import annotations

import re
from functools import cache

from ragtune.data.text import words_and_terms

ENGLISH = "english"

LANGUAGES = (
    *(ENGLISH, "german", "dutch", "french", "spanish", "portuguese", "italian", "swedish", "danish", "norwegian"),
    *("russian", "turkish"),
)
"""Languages with spaces between words and a list in :mod:`bm25s.stopwords`."""

_WORD = re.compile(r"\w+")
_MISSING = {
    ENGLISH: "can cannot cant let may others us",
    "german": "warum wieso weshalb wozu wann wer wen wem wessen woher wohin wieviel",
    "dutch": "waarom wanneer hoe welke waar waarheen hoeveel",
    "french": "pourquoi comment quand où combien quel quelle quels quelles lequel laquelle est si très trop",
    "spanish": "qué cómo cuándo dónde cuál cuáles cuánto cuánta cuántos quién quiénes tan muy demasiado",
    "portuguese": "porquê onde quanto quantos quais tão muito demais",
    "italian": "perché quando quanti quante cosa quale quali così molto troppo",
    "swedish": "varför hur när",
    "danish": "hvorfor hvordan hvornår hvilken",
    "norwegian": "hvorfor hvordan",
    "russian": "почему зачем сколько какая какие",
    "turkish": "neden niçin niye nasıl nerede kaç",  # noqa: RUF001
}
"""Question words, modal verbs and adverbs of degree that the lists lack."""


@cache
def stopwords(language: str) -> frozenset[str]:
    """Return function words of a language in lower case, including question words."""
    import bm25s.stopwords

    name = "EN_PLUS" if language == ENGLISH else language.upper()
    words = frozenset(getattr(bm25s.stopwords, f"STOPWORDS_{name}")) | frozenset(_MISSING[language].split())
    if language != ENGLISH:
        return words
    positive = {word.removesuffix("n't") for word in words if word.endswith("n't")}
    return words | positive | {word.replace("'", "") for word in words}


def language_of(text: str) -> str:
    """Return the language of :data:`LANGUAGES` with most stopwords in the text; English on a tie."""
    words = _WORD.findall(text.lower())
    counts = {language: sum(word in stopwords(language) for word in words) for language in LANGUAGES}
    return max(LANGUAGES, key=counts.__getitem__)


def content_words(text: str) -> list[tuple[str, str]]:
    """Return pairs of lower-case word and term without stopwords, in order; a text of stopwords only keeps all."""
    every = words_and_terms(text)
    ignored = stopwords(language_of(text))
    return [pair for pair in every if pair[0] not in ignored] or every
