"""Reads what a request says about its answer beyond the format's name: keys, separator, count, language, audience."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from ragtune.superprompt.reading.content import request_in
from ragtune.superprompt.reading.text import ENGLISH, language_of, one_line

_NAMES = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "ten": 10, "zwei": 2, "drei": 3, "vier": 4, "fünf": 5}
_NUMBER = rf"(\d{{1,4}}|{'|'.join(_NAMES)})\s+"
AT_MOST = r"(?:at\s+most|up\s+to|(?:no|not)\s+more\s+than|max(?:imum|imal)?\.?|höchstens)"
_COUNT = re.compile(
    rf"(?i)({AT_MOST}\s+)?\b{_NUMBER}(?:\w+\s+){{0,2}}?(?:bullets?|bullet\s+points?|points?|items?|steps|(?:stich)?punkten?|schritten?)\b"
)
_LENGTH = re.compile(
    rf"(?i)\b(?:{AT_MOST}|under|about|exactly|not?\s+longer\s+than|nicht\s+länger\s+als|in)\s+"
    rf"(?:{_NUMBER}|(?:one|einem)\s+)(?:words?|sentences?|lines?|wörtern?|sätzen?|satz)\b"
)
_KEY = r"(?:an?\s+|eine[mnr]?\s+)?[\"'`]?(?!nothing else)[\w-]+(?: [\w-]+){0,2}?[\"'`]?(?:\s*\(\w+\))?"
_BETWEEN = r"(?:\s*[,;|/]\s*(?:and\s+|und\s+)?|\s+(?:and|und)\s+)"
_END = (
    r"(?=\s*(?:[.:!?)](?:\s|\Z)|\n|\Z)|\s+(?:for|für|of|as|als|aus(?:geben)?|aller|and nothing else)\b|\s+[-\u2013]\s)"
)
_KEYS = re.compile(
    r"(?i)(?:\b(?:with|mit|having|and|und|use)\s+|[,:;(]\s*)(?:the\s+|these\s+|den\s+|die\s+)?(?:following\s+|folgenden\s+)?"
    r"(?:keys?|columns?|fields?|header(?:s|\s+row)?|schlüsseln?|spalten|feldern?|kopfzeile)\s*:?\s+"
    rf"({_KEY}(?:{_BETWEEN}{_KEY})*){_END}"
    rf"|(?:\A|[.!?\n]\s*)(?:the\s+|die\s+)?(?:keys?|columns?|fields?|schlüssel|spalten|felder)\s*(?::|\s(?:must|should)\s+be|\s(?:are|sind))\s+({_KEY}(?:{_BETWEEN}{_KEY})*){_END}"
    rf"|\bobjects?\s*(?:\(|(?:should|must)\s+have\s|ha(?:ve|s)\s|with\s)\s*(?!(?:the\s+)?(?:keys?|fields?)\b)({_KEY}(?:{_BETWEEN}{_KEY})+){_END}"
)
_SKELETON = re.compile(r"\{\s*\"[^\"\n]+\"\s*:.*[}\]]|\[\s*\{\s*\".*\]", re.DOTALL)
"""JSON that a request shows."""
_HEAD_ROW = re.compile(r":\s*(\w+(?: \w+){0,3}(?:[;|]\w+(?: \w+){0,3})+)\s*[.\n]?\s*$")
_SEPARATORS = {
    ";": ("semicolons", r"(?i)\bsemi-?colons?\b|\bsemikolon|\bstrichpunkt|(?:delimiter|separator|zeichen)\W{1,3};"),
    "\t": ("tabs", r"(?i)\b(?:by|with|mit|durch)\s+tab(?:s|ulator\w*)?\b|\btab(?:[- ](?:separated|delimited)|\s+as)\b"),
    "|": ("vertical bars", r"(?i)\b(?:by|with|mit|durch)\s+pipes?\b|\bpipe[- ](?:separated|delimited)\b"),
}
_ARRAY = re.compile(r"(?i)\barray\b|\bjson\W+liste?\b|\bliste?\s+(?:of|von|aus)\s+(?:json\W+)?(?:objects|objekten)\b")
_JUST = re.compile(
    r"(?i)\b(?:only|just|nur|ausschließlich|nothing\s+else)\b"
    r"|\b(?:no|without|keine|ohne)\s+(?:explanations?|comments?|text|prose|erklärung(?:en)?)\b"
)
_NO_HEADER = re.compile(r"(?i)\b(?:no|without|ohne|keine)\s+(?:an?\s+)?(?:headers?|head\s+row|kopfzeile)\b")
_NO_CODE = re.compile(r"(?i)\b(?:no|without|keinen?|ohne)\s+code\b")
_LANGUAGES = {"deutsch": "German", "englisch": "English", "französisch": "French", "français": "French"}
_LANGUAGE = re.compile(
    rf"(?i)\b(?:in(?:to|s)?|auf|en)\s+(german|english|french|spanish|italian|{'|'.join(_LANGUAGES)})e?\b"
)
_AUDIENCE = re.compile(
    r"(?i)(?:\b(?:(?:target\s+)?audience|zielgruppe)\s*(?::|is|are|ist|sind)|(?<=[,;(]\s)zielgruppe\s)(?!\s*(?:what|how|why|when|where|which|who|is|are|do|does|can)\b)\s*([^.;!?\n]+)"
    r"|\bwrite\s+(?:it\s+|this\s+)?for\s+([^.,:;!?\n]+)|\bfor\s+an\s+audience\s+of\s+([^.,;!?\n]+)"
    r"|\bexplain\s+(?:it\s+|this\s+)?to\s+(an?\s+[^.,;!?\n]+?)(?=\s+(?:how|what|why|when|where|which|whether)\b|[.,;!?\n]|\Z)"
    r"|\b(?:explain|describe|summari[sz]e|write|erkläre?|beschreibe?|schreibe?)\b[^.!?\n]{0,200}?\s"
    r"(?:to\s+(?=(?:an?|my|our)\s)|for\s+|für\s+)((?:(?:an?|my|our|the|eine?n?|die)\s+)?(?:[\w-]+\s+)?"
    r"(?:child(?:ren)?|kids?|[\d\w]+[-\s]year[-\s]olds?|beginners?|newcomers?|novices?|students?|managers?|executives?|boss|colleagues?|"
    r"(?:developer|programmer|engineer|expert|intern|reader|person)s?|people|kind(?:er)?|(?:schüler|anfänger|einsteiger|entwickler)\w*|laien)\b)"
    r"|(?:\b(?:explain|describe|teach|tell|summari[sz]e|write|erkläre?|beschreibe?|schreibe?)\b[^.!?\n]{0,200}?\s"
    r"(?:(?:like|as\s+if)\s+I(?:['\u2019]?m|\s+(?:am|was|were))|als\s+wäre\s+ich)\s+|(?:\A\W*|\()\bELI)"
    rf"(?:(?P<age>\d{{1,2}}|{'|'.join(_NAMES)})\b(?:\s+(?:years?\s+old|jahre\s+alt)\b)?"
    r"(?!\s+(?:(?:minute|hour|day|mile|year|meter|kilo)\w*|percent|o'clock|stunden?|tage?|jahre)\b|\s*%|-)"
    r"|(an?\s+[^.,;!?\n]+?)(?=\s+(?:how|what|why|when|where|which|whether)\b|[.,;!?\n]|\Z))"
)
ASKS_FOR_DETAILS = (_KEYS, _HEAD_ROW, _LENGTH, _COUNT, _LANGUAGE, _JUST, _NO_CODE)
"""What names no subject in a request."""

_ARTICLE = re.compile(r"\A(?:an?|eine[mnr]?)\s+", re.IGNORECASE)
_MAX_ITEMS = 10


class Details(NamedTuple):
    """What a request for a format says beyond its name."""

    keys: tuple[str, ...] = ()
    is_array: bool = False
    separator: str = ","
    items: int | None = None
    is_most: bool = False
    length: str = ""
    is_only: bool = False
    has_no_code: bool = False
    skeleton: str = ""
    has_no_header: bool = False

    @classmethod
    def of(cls, text: str) -> Details:
        """Read the details from a request, outside its material."""
        text = request_in(text)
        separator = next((mark for mark, (_, words) in _SEPARATORS.items() if re.search(words, text)), ",")
        found = _KEYS.search(text) or _HEAD_ROW.search(text)
        written = re.split(_BETWEEN, next(filter(None, found.groups()))) if found else []
        skeleton = _SKELETON.search(text)
        counted, length = _COUNT.search(text), _LENGTH.search(text)
        items = None if counted is None else _NAMES.get(counted[2].lower()) or int(counted[2])
        return cls(
            tuple(_ARTICLE.sub("", key).partition("(")[0].strip("\"'` ") for key in written),
            bool(_ARRAY.search(text)),
            separator,
            items,
            bool(counted and counted[1]),
            "" if length is None else one_line(length[0]).removeprefix("in "),
            bool(_JUST.search(text)),
            bool(_NO_CODE.search(text)),
            skeleton[0] if skeleton else "",
            bool(_NO_HEADER.search(text)),
        )

    def shape(self, name: str, example: str) -> str:
        """Return a recipe's example with the named keys, and as many items as are asked for."""
        if name == "JSON" and self.skeleton:
            return self.skeleton
        if name == "JSON lines" and self.keys:
            return "\n".join([json.dumps(dict.fromkeys(self.keys, "..."), ensure_ascii=False)] * 2)
        if name == "JSON" and (self.keys or self.is_array):
            item: Any = dict.fromkeys(self.keys, "...") if self.keys else "..."
            return json.dumps([item, item] if self.is_array else item, indent=2, ensure_ascii=False)
        if name == "CSV":
            keys = self.keys or ("column", "column")
            values = self.separator.join(["value"] * len(keys))
            return values if self.has_no_header else f"{self.separator.join(keys)}\n{values}"
        if name == "table" and self.keys:
            rows = (self.keys, ["---"] * len(self.keys), ["value"] * len(self.keys))
            return "\n".join(f"| {' | '.join(row)} |" for row in rows)
        lines = example.split("\n")
        if self.items and self.items <= _MAX_ITEMS and name.endswith("list"):
            numbered = name == "numbered list"
            return "\n".join(f"{n}. item" if numbered else lines[0] for n in range(1, self.items + 1))
        return example

    def rules(self, name: str, is_code: bool) -> list[str]:
        """Return the details as rules in the words of a request."""
        keys, said = ", ".join(self.keys), []
        if keys and name.startswith("JSON"):
            said.append(
                f"{'Output an array of objects, each' if self.is_array else 'Use objects'} with the keys {keys}."
            )
        elif keys and name in ("CSV", "table"):
            said.append(f"Use the columns {keys}, in this order.")
        if name == "CSV" and self.separator != ",":
            said.append(f"Separate the values with {_SEPARATORS[self.separator][0]}, not with commas.")
        if self.items and name.endswith("list"):
            said.append(f"Write {'at most' if self.is_most else 'exactly'} {self.items} items.")
        if self.length:
            said.append(f"Length: {self.length}.")
        if self.is_only and is_code:
            said.append("Write no explanation before or after the code, and nothing else.")
        return said + (["Show no code."] if self.has_no_code else [])


def language_in(text: str) -> str | None:
    """Return the English name of the answer's language: named in the request, or that of a request not in English."""
    request = request_in(text)
    if found := _LANGUAGE.search(request):
        return _LANGUAGES.get(found[1].lower(), found[1].capitalize())
    own = language_of(request)
    return None if own == ENGLISH else own.capitalize()


def audience_in(text: str) -> str | None:
    """Return for whom a request says that the answer is."""
    found = _AUDIENCE.search(request_in(text))
    if found and found["age"]:
        return f"a {_NAMES.get(found['age'].lower(), found['age'])}-year-old"
    return next(filter(None, found.groups())).strip() if found else None


def without_audience(text: str) -> str:
    """Return the text without the words that say for whom the answer is."""
    if (found := _AUDIENCE.search(text)) is None:
        return text
    group = found.lastindex or 0
    start = found.start(group if group > 3 else 0)  # what is explained stays
    return f"{text[:start]} {text[found.end() :]}"
