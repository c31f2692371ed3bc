"""Finds the output format that a prompt asks for, without a language model."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from pydantic import Field

from ragtune.superprompt.frozen import Frozen
from ragtune.superprompt.reading.content import request_in
from ragtune.superprompt.reading.text import ENGLISH, language_of, one_line

_LANGUAGES = r"python|sql|bash|shell|toml|javascript|typescript|java|rust|go|c\+\+|powershell"
_FORM = (
    r"(?:(?:an?|one|the|single|valid|short|simple|plain|clean|well[- ]formed|markdown|numbered|ordered|bulleted|bullet|"
    r"fenced|html|json|csv|yaml|xml|comma[- ]separated|step[- ]by[- ]step|to-do|\d+|two|three|four|five|six|ten|"
    r"eine[rnm]?|ein|nummerierte[rn]?|zwei|drei|vier|fünf|sechs|zehn|kurzen?|exactly|genau)\s+){0,4}"
    r"(?:json(?:\s+(?:array|objects?|list|lines|document|value|format))?|ya?ml|csv|xml|html|markdown|md|tables?|tabelle|"
    r"check\s?lists?|checkliste|lists?|liste|bullets?|bullet\s+points?|stichpunkte[n]?|schritte[n]?|steps|plain\s?text|prose|"
    r"flie(?:ß|ss)text|paragraphs?|sentences?|words|sätze[n]?|wörter[n]?|code\s+(?:block|fence)|e-?mails?|latex|"
    rf"{_LANGUAGES})\b"
    r"(?:\s+(?:format|only|file|document|points|code|query|queries|statements?|commands?|script))*"
    r"(?:\s+(?:of|von|aus)\s+(?:json\s+)?(?:objects|objekten))?"
)
"""A form of an answer, with the words before it."""

_VERB = (
    r"\b(?:answer|respond|reply|return|output|format|present|deliver|render|print|give(?:\s+(?:me|it|them|us))?|"
    r"make(?:\s+(?:me|it))?|create|generate|produce|provide|write(?:\s+(?:me|it|them))?|show(?:\s+(?:me|it|them))?|use|antworte|gib)"
)
_ASKED = re.compile(
    rf"{_VERB}(?:\s+(?!(?:about|on|over|regarding|über)\b)[\w'-]+){{0,5}}?\s+(?:in|as|with|using|only|als|mit)?\s*{_FORM}",
    re.IGNORECASE,
)
_ONLY = (
    rf"\b(?:only|just|nur|ausschließlich)\s+(?:{_FORM}|code)\b|(?:{_FORM}|\bcode)\s+(?:only|alone)\b"
    rf"|\b(?:output|format|answer|reply|ausgabe|antwort)\s*:\s*{_FORM}"
)
"""A form and nothing else, or a form behind a colon."""

_WISH = re.compile(
    rf"{_ONLY}|{_ASKED.pattern}|\A\W*{_FORM}(?=,?\s*(?:please|bitte|only)\b)"
    rf"|\A\W*(?:an?\s+|eine?\s+)?(?:short\s+|kurze\s+)?e-?mail\b|\A\W*(?!(?:{_LANGUAGES})\b){_FORM}(?=\s+(?:with|mit|separated)\b|\s*[.:!]?\s*\Z)|\b(?:in|as|into|using|als|with)\s+(?:(?:at\s+most|under|about|around|exactly|up\s+to)\s+)?{_FORM}"
    r"(?=\s*(?:$|[,;:.!?)]|of\b|with\b|in\b|for\b|where\b|containing\b|that\b|and\b|please\b|um\b))"
    rf"|\b(?:from\s+{_FORM}|(?:convert|transform|change|turn|reformat|export|migrate)\b[^.!?]*?)\s+(?P<target>to\s+{_FORM})"
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
    r"\W*(?:how\s+(?:do|does|can|could|should|to|would)|why|what\s+is|is|are|can\s+i|should\s+i|wie|warum)\b",
    re.IGNORECASE,
)
_NO = r"\b(?:no|not|never|without|don't|dont|avoid|keine?[nm]?|nicht|ohne)"
_HOW_TO = re.compile(r"\b(?:how\s+to|wie\s+man)\s*$", re.IGNORECASE)
_NEGATED = re.compile(rf"{_NO}(?:\s+\w+){{0,2}}\s*$", re.IGNORECASE)
_NEGATES = re.compile(rf"{_NO}\s+(?:\w+\s+)?{_FORM}$", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_NUMBERS = {
    name: number
    for number, names in enumerate(("two zwei", "three drei", "four vier", "five fünf", "six sechs"), start=2)
    for name in names.split()
} | {"ten": 10, "zehn": 10}
_COUNT = re.compile(
    rf"\b(\d{{1,3}}|{'|'.join(_NUMBERS)})\s+(?:\w+\s+){{0,2}}?(?:bullets?|bullet\s+points?|points?|items?|steps|"
    r"stichpunkte[n]?|punkte[n]?|schritte[n]?)\b",
    re.IGNORECASE,
)
_LENGTH = re.compile(
    r"\b(at\s+most|up\s+to|under|about|exactly|no\s+more\s+than|höchstens|maximal|in)\s+"
    rf"(\d{{1,4}}|{'|'.join(_NUMBERS)})\s+(words|sentences|lines|wörter[n]?|sätze[n]?)\b",
    re.IGNORECASE,
)
_KEYS = re.compile(
    r"(?:\b(?:with|mit|having|and|und|use)\s+|[,:;(]\s*)(?:the\s+|these\s+|den\s+|die\s+)?(?:keys?|columns?|fields?|headers?|schlüsseln?|spalten|feldern?)"
    r"\s*:?\s+((?:[\"'`]?[\w-]+(?: [\w-]+)?[\"'`]?)(?:(?:\s*[,;|/]\s*(?:and\s+|und\s+)?|\s+(?:and|und)\s+)"
    r"[\"'`]?[\w-]+(?: [\w-]+)?[\"'`]?)*)(?=\s*(?:[.:!?)](?:\s|\Z)|\n|\Z)|\s+(?:for|für|of)\b)",
    re.IGNORECASE,
)
_HEAD_ROW = re.compile(r":\s*(\w+(?:[;|]\w+)+)\s*[.\n]?\s*$")
_SEPARATORS = {
    ";": r"semi-?colons?|semikolon\w*|strichpunkt\w*",
    "\t": r"tabs?|tabulator\w*",
    "|": r"pipes?",
}
_ARRAY = re.compile(
    r"\barray\b|\bjson\W+(?:list|liste)\b|\b(?:list|liste)\s+(?:of|von|aus)\s+(?:json\W+)?(?:objects|objekten)\b",
    re.IGNORECASE,
)
_JUST = re.compile(
    r"\b(?:only|just|nur|ausschließlich|nothing\s+else)\b|\b(?:no|without|keine|ohne)\s+(?:explanations?|comments?|text|"
    r"prose|erklärung(?:en)?)\b",
    re.IGNORECASE,
)
_NO_CODE = re.compile(r"\b(?:no|without|keinen?|ohne)\s+code\b", re.IGNORECASE)
_LANGUAGE = re.compile(
    r"\b(?:in|auf|en)\s+(german|deutsch|english|englisch|french|französisch|français|spanish|spanisch|italian)\b",
    re.IGNORECASE,
)
_LANGUAGE_NAMES = {"deutsch": "German", "englisch": "English", "französisch": "French", "français": "French"}
_AUDIENCE = re.compile(
    r"\b(?:(?:target\s+)?audience|zielgruppe)\s*(?::|is|are|ist|sind)\s*([^.;!?\n]+)"
    r"|\bwrite\s+(?:it\s+|this\s+)?for\s+([^.,;!?\n]+)|\bfor\s+an\s+audience\s+of\s+([^.,;!?\n]+)"
    r"|\bexplain\b[^.!?\n]*?\s+to\s+(an?\s+[^.,;!?\n]+)|\berkläre?\b[^.!?\n]*?\s+für\s+([^.,;!?\n]+)",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|\"[^\"\n]*\"", re.DOTALL)


_MAX_ITEMS = 10
_SEPARATOR_NAMES = {";": "semicolons", "\t": "tabs", "|": "vertical bars"}


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
    for pattern in (_KEYS, _HEAD_ROW, _LENGTH, _COUNT, _LANGUAGE, _JUST, _NO_CODE, _AUDIENCE):
        task = pattern.sub(" ", task)
    return task


def _wishes(task: str) -> Iterator[str]:
    """Phrases that ask for a form, sentence by sentence, outside the task's material."""
    for sentence in _SENTENCE_END.split(_QUOTED.sub(" ", request_in(task))):
        pattern = _ASKED if _ASKING_HOW.match(sentence) else _WISH
        for match in pattern.finditer(sentence):
            there = [at_hand.end() for at_hand in _AT_HAND.finditer(sentence, match.start())]
            negated = _NEGATED.search(sentence[: match.start()]) or _NEGATES.search(match[0])
            negated = negated or _HOW_TO.search(sentence[: match.start()])
            if not negated and match.end() not in there:
                yield next(filter(None, match.groups()), match[0]).strip(" ,")


class Details(NamedTuple):
    """What a request for a format says beyond its name."""

    keys: tuple[str, ...] = ()
    is_array: bool = False
    separator: str = ","
    count: int | None = None
    length: str = ""
    is_only: bool = False
    has_no_code: bool = False

    @classmethod
    def of(cls, text: str) -> Details:
        """Read the details from a request, outside its material."""
        text = request_in(text)
        named = " ".join(
            name for name, words in _SEPARATORS.items() if re.search(rf"\b(?:{words})\b", text, re.IGNORECASE)
        )
        found = _KEYS.search(text) or _HEAD_ROW.search(text)
        written = re.split(r"\s*[,;|/]\s*(?:and\s+|und\s+)?|\s+(?:and|und)\s+", found[1]) if found else []
        counted, length = _COUNT.search(text), _LENGTH.search(text)
        count = None if counted is None else _NUMBERS.get(counted[1].lower()) or int(counted[1])
        return cls(
            tuple(key.strip("\"'` ") for key in written),
            bool(_ARRAY.search(text)),
            named[:1] or ",",
            count,
            "" if length is None else one_line(length[0]).removeprefix("in "),
            bool(_JUST.search(text)),
            bool(_NO_CODE.search(text)),
        )

    def shape(self, recipe: FormatRecipe) -> str:
        """Return the recipe's example with the named keys, and as many items as are asked for."""
        if recipe.name == "JSON" and (self.keys or self.is_array):
            item: Any = dict.fromkeys(self.keys, "...") if self.keys else "..."
            return json.dumps([item, item] if self.is_array else item, indent=2, ensure_ascii=False)
        if recipe.name == "CSV":
            keys = self.keys or ("column", "column")
            return "\n".join([self.separator.join(keys), self.separator.join(["value"] * len(keys))])
        if recipe.name == "table" and self.keys:
            rows = (self.keys, ["---"] * len(self.keys), ["value"] * len(self.keys))
            return "\n".join(f"| {' | '.join(row)} |" for row in rows)
        lines = recipe.example.split("\n")
        if self.count and self.count <= _MAX_ITEMS and recipe.name.endswith("list"):
            numbered = recipe.name == "numbered list"
            return "\n".join(f"{n}. item" if numbered else lines[0] for n in range(1, self.count + 1))
        return recipe.example

    def rules(self, recipe: FormatRecipe | None) -> list[str]:
        """Return the details as rules in the words of a request."""
        name = "" if recipe is None else recipe.name
        keys, said = ", ".join(self.keys), []
        if keys and name == "JSON":
            said.append(
                f"{'Output an array of objects, each' if self.is_array else 'Use objects'} with the keys {keys}."
            )
        elif keys and name in ("CSV", "table"):
            said.append(f"Use the columns {keys}, in this order.")
        if name == "CSV" and self.separator != ",":
            said.append(f"Separate the values with {_SEPARATOR_NAMES[self.separator]}, not with commas.")
        if self.count and name.endswith("list"):
            said.append(f"Write exactly {self.count} items.")
        if self.length:
            said.append(f"Length: {self.length}.")
        if self.is_only and recipe is not None and recipe.fenced:
            said.append("Write no explanation before or after the code, and nothing else.")
        return said + (["Show no code."] if self.has_no_code else [])


def language_in(text: str) -> str | None:
    """Return the English name of the answer's language: named in the request, or that of a request not in English."""
    request = request_in(text)
    if found := _LANGUAGE.search(request):
        return _LANGUAGE_NAMES.get(found[1].lower(), found[1].capitalize())
    own = language_of(request)
    return None if own == ENGLISH else own.capitalize()


def audience_in(text: str) -> str | None:
    """Return for whom a request says that the answer is."""
    found = _AUDIENCE.search(request_in(text))
    return next(filter(None, found.groups())).strip() if found else None


def _phrase(words: str) -> str:
    return r"[\s\-]+".join(map(re.escape, words.replace("-", " ").split()))


def _bare(text: str) -> str:
    return re.sub(r"^(?:an?|the|ein|eine|einen)\s+", "", one_line(text).rstrip(" ."), flags=re.IGNORECASE)
