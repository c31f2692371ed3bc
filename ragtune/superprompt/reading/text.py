"""Clean text, borders that text cannot cross (headings of blocks, fences), and words without stopwords."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from ragtune.canonical.analyzers import stopword_list
from ragtune.data.text import term_of, words_or_pairs
from ragtune.llm.prompts import fence
from ragtune.llm.types import well_formed

BLOCKS = ("System", "Prompt", "S_CTX", "Attachments", "Recent Conversation")
"""Names of the blocks of the final prompt in order (rule E12)."""

_LINE_ENDS = re.compile("\r\n|[\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029]")
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1b\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufeff\ufffe\uffff]")
_DECORATION = re.compile(r"^[\W_]*(?:\d{1,3}[.)]\s+)?[\W_]*|[\W_]+$")
_GAPS = re.compile(r"[\s_\-]+")
_INVISIBLE = ("Cc", "Cf", "Co", "Cn")
_CODE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")
_MARKER = re.compile(r"\[\[\s*(begin|end)\b")

ENGLISH = "english"

_WORD = re.compile(r"\w+")
_NAME = re.compile(r"\b(?:[A-Z]*+[a-z\d]*+[A-Z_]|[A-Z]{2,}[a-z]{2})\w*")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+")
_MISSING = {
    ENGLISH: "can cannot cant let may others us",
    "german": "bitte warum wieso weshalb wozu wann wer wen wem wessen woher wohin wieviel",
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
"""Question words, modal verbs and adverbs of degree that the lists of bm25s lack, by language."""


def clean(text: str) -> str:
    r"""Return ``text`` with ``\n`` as the only line end and without control, override and byte order marks."""
    return _CONTROLS.sub("", _LINE_ENDS.sub("\n", well_formed(text)))


def one_line(text: str) -> str:
    """Return ``text`` on one line: runs of white space become one space."""
    return " ".join(clean(text).split())


def normalize_name(name: str) -> str:
    """A header's name without case, width, numbering, emphasis, extra spacing and invisible characters."""
    plain = _DECORATION.sub("", unicodedata.normalize("NFKC", as_seen(name).casefold()))
    return _GAPS.sub(" ", plain).strip()


def as_seen(text: str) -> str:
    """Return ``text`` in compatibility form and without invisible characters."""
    normal = unicodedata.normalize("NFKC", text)
    return "".join(char for char in normal if char in "\t\n" or unicodedata.category(char) not in _INVISIBLE)


_NAMES = frozenset(normalize_name(name) for name in BLOCKS)


def fenced(text: str, label: str, /, **labels: str) -> str:
    """``text`` behind a fence of :func:`ragtune.llm.prompts.fence`, borders escaped, under a line for each label."""
    head = [f"{name}: {one_line(value)}" for name, value in labels.items()]
    body = "\n".join(_escaped(line, is_quoted=True) for line in clean(text).split("\n"))
    return "\n".join([*head, fence(body, label)])


def blocks(parts: Sequence[tuple[str, str]]) -> str:
    """Return named blocks one after the other, each under ``# NAME``."""
    return "\n\n".join(f"# {name}\n\n{text}" for name, text in parts)


def escape_borders(text: str) -> str:
    """``text`` with a backslash before lines that could be read as a block's heading or a fence's marker."""
    lines = [*clean(text).split("\n"), ""]
    *marks, unclosed = code_marks(lines)
    escaped = [_escaped(line, is_quoted=bool(mark)) for line, mark in zip(lines, marks, strict=False)]
    return "\n".join([*escaped, unclosed] if unclosed else escaped)


def code_marks(lines: Iterable[str]) -> Iterator[str]:
    """Yield for each line the opening marks of the fenced code that it belongs to, fences included; empty outside."""
    marks = ""
    for line in lines:
        match = _CODE.match(line)
        if not marks:
            marks = match[1] if match else ""
            yield marks
            continue
        yield marks
        if match and match[1].startswith(marks) and not line[match.end() :].strip():
            marks = ""


def _escaped(line: str, is_quoted: bool) -> str:
    seen = (line if line.isascii() else as_seen(line)).strip()
    if seen.startswith("#"):
        title = seen[1:]
        is_heading = not is_quoted and (not title or title[0].isspace())
        return "\\" + line if is_heading or normalize_name(title) in _NAMES else line
    is_underline = not is_quoted and seen != "" and not seen.strip("=")
    return "\\" + line if is_underline or _MARKER.match(seen) else line


@cache
def stopwords(language: str) -> frozenset[str]:
    """Return function words of a language in lower case, including question words."""
    name = "EN_PLUS" if language == ENGLISH else language.upper()
    words = stopword_list(name) | frozenset(_MISSING[language].split())
    if language != ENGLISH:
        return words
    positive = {word.removesuffix("n't") for word in words if word.endswith("n't")}
    return words | positive | {word.replace("'", "") for word in words}


def language_of(text: str) -> str:
    """Return the language with most stopwords in the text; English on a tie."""
    words = _WORD.findall(text.lower())
    counts = {language: sum(word in stopwords(language) for word in words) for language in _MISSING}
    return max(_MISSING, key=counts.__getitem__)


def words(text: str) -> list[str]:
    """Return the words in lower case, then the parts of names in code: "plugin", "timeout" for ``pluginTimeout``."""
    return words_or_pairs(text) + [part.lower() for name in _NAME.findall(text) for part in _PART.findall(name)]


def terms(text: str) -> list[str]:
    """Return the terms of a text, which its names in code have as a whole and by their parts."""
    return list(filter(None, map(term_of, words(text))))


def content_words(text: str) -> list[tuple[str, str]]:
    """Return pairs of lower-case word and term without stopwords, in order; a text of stopwords only keeps all."""
    every = [(word, term) for word in words(text) if (term := term_of(word))]
    ignored = stopwords(language_of(text))
    return [pair for pair in every if pair[0] not in ignored] or every
