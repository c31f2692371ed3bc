"""Finds the output format that a prompt asks for, without a language model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pydantic import Field

from ragtune.superprompt.frozen import Frozen
from ragtune.superprompt.reading.content import request_in
from ragtune.superprompt.reading.details import ASKS_FOR_DETAILS, AT_MOST, without_audience
from ragtune.superprompt.reading.text import one_line

_LANGUAGES = r"python|sql|bash|shell|toml|javascript|typescript|java|rust|go|c\+\+|powershell"
_STEPS = r"(?:step[- ]by[- ]step|schritt\s+für\s+schritt)"
_FORM = (
    r"(?:(?:an?|one|the|single|valid|short|simple|plain|clean|well[- ]formed|markdown|numbered|ordered|bulleted|bullet|"
    rf"fenced|html|json|csv|yaml|xml|(?:comma|semi-?colon|tab|pipe)[- ]separated|{_STEPS}|to-do|\d+|"
    rf"{AT_MOST}|two|three|four|five|six|ten|eine[rnm]?|ein|de[nrm]|die|das|nummerierte[rn]?|zwei|drei|vier|fünf|sechs|zehn|kurze[nrm]?|exactly|genau|\b[\w-]{{1,20}}-column)\s+){{0,4}}"
    r"(?:jsonl|ndjson|(?:array|list|liste)\s+(?:of|von|aus)\s+(?:objects|objekten)|json(?:[\s-]+(?:array|objects?|list|lines|document|value|format))?|ya?ml|csv|xml|html|markdown|md|tables?|tabelle|"
    r"check\s?lists?|checkliste|lists?|liste|bullets?|bullet\s+points?|stichpunkte[n]?|schritte[n]?|steps|plain\s?text|prose|"
    r"flie(?:ß|ss)text|paragraphs?|sentences?|words|sätze[n]?|wörter[n]?|code\s+(?:block|fence)|e-?mails?|mail(?=\s+(?:an|to)\b)|latex|"
    rf"{_STEPS}\s+(?:guide|instructions?|tutorial|explanation)|"
    rf"{_LANGUAGES})\b"
    r"(?:\s+(?:format|only|file|document|points|code|query|queries|statements?|commands?|script))*"
    r"(?:\s+(?:of|von|aus)\s+(?:json\s+)?(?:objects|objekten))?"
)
"""A form of an answer, with the words before it."""

_VERB = (
    r"\b(?:answer|respond|reply|return|output|format|present|deliver|render|print|give(?:\s+(?:me|it|them|us))?|"
    r"make(?:\s+(?:me|it))?|create|generate|produce|provide|write(?:\s+(?:me|it|them))?|show(?:\s+(?:me|it|them))?|use|draft|compose|"
    r"antworte|gib|erstelle?|schreibe?|verfasse|entwirf|nenne|zeige?)"
)
_ASKED = (
    r"(?:\s+(?!(?:to|about|on|over|regarding|how|wie|that|which|whose|über)\b)[\w'-]+){0,5}?\s+(?:in|as|with|using|only|als|mit)?\s*"
    + _FORM
)
_TOLD = re.compile(
    rf"(?i)\b(?:answer|respond|reply|antworte|(?:give|show|write|send|gib|zeig)\s+(?:me|us|mir|uns)){_ASKED}"
    rf"|\A\W*(?:how|wie)\b.*\s(?P<steps>{_STEPS})\W*\Z"
)
"""A request for a form inside a question, which names other forms as its subject."""
_ONLY = (
    rf"\b(?:only|just|nur|ausschließlich)\s+(?:{_FORM}|(?:the\s+|den\s+)?code)\b|(?:{_FORM}|\bcode)\s+(?:only|alone)\b"
    rf"|\b(?:output|format|answer|reply|ausgabe|antwort)\s*:\s*{_FORM}"
)
"""A form and nothing else, or a form behind a colon."""

_WISH = re.compile(
    rf"{_ONLY}|{_VERB}{_ASKED}|\A\W*{_FORM}(?=,?\s*(?:please|bitte|only)\b)"
    rf"|\A\W*(?:an?\s+|eine?\s+)?(?:short\s+|kurze\s+)?e-?mail\b|\A\W*(?!(?:{_LANGUAGES})\b){_FORM}"
    r"(?=\s+(?:with|mit|separated)\b|\s*[.:!]?\s*\Z)"
    rf"|(?:\b(?:please|bitte)\s+|[,;]\s+(?=(?:{AT_MOST}|\d+|two|three|four|five|six|ten|zwei|drei|vier|fünf|sechs|zehn)\s))"
    rf"(?!(?:{_LANGUAGES})\b){_FORM}(?=\s*[.!]?\s*\Z)"
    rf"|\b(?:in|as|into|using|als|with)\s+(?:(?:{AT_MOST}|under|about|around|exactly)\s+)?{_FORM}"
    r"(?=\s*(?:$|[,;:.!?)]|of\b|with\b|in\b|for\b|where\b|containing\b|that\b|and\b|please\b|um\b|mit\b|für\b|zusammen\b|auf\b|aus\b|antworten\b|ausgeben\b|how\b|what\b|why\b|wie\b|was\b|warum\b|without\b|ohne\b))"
    rf"|\b(?:from\s+{_FORM}|(?:convert|transform|change|turn|reformat|export|migrate)\b[^.!?]*?)\s+(?P<target>to\s+{_FORM})"
    rf"|\A\W*(?=\d|no\s|{AT_MOST}|three|five|drei|fünf){_FORM}(?=\s*:|\s+(?:on|about|of|zu|über)\b)"
    rf"|\b(?:I\s+(?:need|want)(?=[^.]*\s(?:of|listing)\b)|(?:result|answer|response|ergebnis|antwort)\s+(?:should|must|soll|muss)(?:\s+be)?)\s+{_FORM}"
    rf"|\b(?:explain|describe|show|tell|teach|walk|guide|take|list|erkläre?|beschreibe?|zeige?)\b[^.!?]{{0,200}}?\s(?P<steps>{_STEPS})"
    r"(?=\s*(?:\Z|[,;:.!?)])|\s+(?:how|what|why|through|and|for|wie|was|warum|und)\b)"
    rf"|\b(?:replace|swap)\b[^.!?]*?\s+(?P<other>(?:by|with|for)\s+{_FORM})",
    re.IGNORECASE,
)
"""Words that ask for a form. For a conversion the named groups hold the target, not the source."""

_AT_HAND = re.compile(
    rf"\b(?:this|these|that|those|my|our|your|following|above|diese[nrsm]?|meine?[nrsm]?)\s+{_FORM}(?<!format)"
    r"(?!\s+(?:format|structure|schema|shape|layout|template)\b)",
    re.IGNORECASE,
)
"""A form that the prompt already has, except a template to follow."""
_PREPOSITION = re.compile(r"\A(?:in|into|to|as|by|with|for|using|als|mit)\s+", re.IGNORECASE)
_SAYS_MORE = re.compile(
    r"(?:\band|\bthen|\bund|[,;.!?\n])\s+(?:then\s+|also\s+|please\s+|dann\s+)*"
    r"(?:explain|describe|discuss|comment|justify|tell|say|erkläre?|beschreibe?|begründe?)\b",
    re.IGNORECASE,
)
_ASKING_HOW = re.compile(
    r"\W*(?:how\s+(?:do|does|can|could|should|to|would)|why|what\s+is|is|are|do|does|did|has|can\s+(?!you)|should\s+i|wie|"
    r"warum|ist|sind|hat|kann\s+(?!st)|gibt\s+es)\b",
    re.IGNORECASE,
)
_IN_LANGUAGE = re.compile(rf"(?:in|with|using|mit)\s+(?:{_LANGUAGES})", re.IGNORECASE)
_WRITES_CODE = re.compile(
    r"\b(?:write|implement|code|create\s+(?:an?\s+)?table|scripts?|program|function|class|query|snippet|solve|example|schreib\w*|programm\w*)\b",
    re.IGNORECASE,
)
_NO = r"\b(?:no|not|never|without|don't|dont|avoid|keine?[nm]?|nicht|ohne)"
_HOW_TO = re.compile(r"\b(?:how\s+to|wie\s+man)\s*$", re.IGNORECASE)
_NEGATED = re.compile(rf"{_NO}(?:\s+\w+){{0,2}}\s*$", re.IGNORECASE)
_NEGATES = re.compile(rf"{_NO}\s+(?:\w+\s+)?{_FORM}$", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_QUOTED = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|\"[^\"\n]*\"", re.DOTALL)


class FormatRecipe(Frozen):
    """One format."""

    name: str
    words: tuple[str, ...] = Field(min_length=1)
    spec: str = Field(min_length=1)
    example: str
    rules: tuple[str, ...]
    alone: bool = False
    fenced: bool = False

    def is_asked_for(self, text: str) -> bool:
        return any(re.search(rf"\b{_phrase(word)}\b", text, re.IGNORECASE) for word in self.words)

    def is_all_of(self, text: str) -> bool:
        """Return whether the text is only one of the words, with or without an article and a full stop."""
        bare = _bare(text)
        return any(re.fullmatch(_phrase(_bare(word)), bare, re.IGNORECASE) for word in (*self.words, self.spec))


def recipe_for(text: str, recipes: Sequence[FormatRecipe]) -> FormatRecipe | None:
    """Return the first recipe that the text asks for. Stricter formats come first in the configuration."""
    line = one_line(text)
    return next((recipe for recipe in recipes if recipe.is_asked_for(line)), None)


def format_in_task(task: str, recipes: Sequence[FormatRecipe]) -> tuple[FormatRecipe, str] | None:
    """The last format that a task asks for in passing ("... as a JSON array"), and the words that ask for it."""
    wishes = list(_wishes(task))
    for wish in reversed(wishes):
        if (recipe := recipe_for(wish, recipes)) is not None:
            says_more = recipe.alone and _SAYS_MORE.search(task.partition(wish)[2])
            return None if says_more else (recipe, _PREPOSITION.sub("", wish))
    return None


def without_format(task: str) -> str:
    """Return the task without the words that ask for a form of the answer."""
    for wish in _wishes(task):
        task = task.replace(wish, " ", 1)
    for pattern in ASKS_FOR_DETAILS:
        task = pattern.sub(" ", task)
    return without_audience(task)


def _wishes(task: str) -> Iterator[str]:
    """Phrases that ask for a form, sentence by sentence, outside the task's material."""
    for sentence in _SENTENCE_END.split(_QUOTED.sub(" ", request_in(task))):
        pattern = _TOLD if _ASKING_HOW.match(sentence) else _WISH
        for match in pattern.finditer(sentence):
            there = [at_hand.end() for at_hand in _AT_HAND.finditer(sentence, match.start())]
            before = sentence[: match.start()]
            negated = _NEGATED.search(before) or _NEGATES.search(match[0]) or _HOW_TO.search(before)
            is_subject = _IN_LANGUAGE.fullmatch(match[0]) and not _WRITES_CODE.search(sentence)
            if not negated and not is_subject and match.end() not in there:
                yield next(filter(None, match.groups()), match[0]).strip(" ,;")


def _phrase(words: str) -> str:
    return r"[\s\-]+".join(map(re.escape, words.replace("-", " ").split()))


def _bare(text: str) -> str:
    return re.sub(r"^(?:an?|the|ein|eine|einen)\s+", "", one_line(text).rstrip(" ."), flags=re.IGNORECASE)
