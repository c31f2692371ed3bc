"""TREC topics: the older SGML, whose tags are seldom closed, and XML (web tracks, TREC-COVID, CLEF)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html import unescape
from pathlib import Path

from ragtune.core.errors import DatasetError
from ragtune.core.plain import quoted
from ragtune.data.files.textfile import read_raw_lines

_TOPICS = ("top", "topic")
_IDS = ("num", "number", "identifier", "id", "qid")
_OURS = {"desc": "description", "narr": "narrative"}

_INLINE = frozenset(["a", "abbr", "b", "big", "cite", "code", "em", "font", "i", "mark", "small", "span", "strong"])
_INLINE |= {"sub", "sup", "u"}
_BREAKS = frozenset(["br", "div", "li", "ol", "p", "ul"])
"""Tags of HTML within a field's text, which begin no field; words end at breaks."""

_TAG = re.compile(r"<(/?)([a-z][\w.-]*)((?:\s[^<>]*)?)/?>", re.IGNORECASE)
_ATTRIBUTE = re.compile(rf"\b({'|'.join(_IDS)})\s*=\s*[\"']?([^\"'<>\s]+)", re.IGNORECASE)
_COMMENT = re.compile(r"<!--.*?-->|<!\[CDATA\[|\]\]>", re.DOTALL)
_LABEL = re.compile(r"(number|topic|description|narrative)\s*:\s*", re.IGNORECASE)
"""Words that introduce a field in TREC's older files: ``<num> Number: 301``."""


def read_topics(file: Path) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Yield each topic's place (``FILE:LINE``), id, and fields with text; of repeated fields the first counts."""
    begun, field, texts, found = "", None, dict[str, str](), False
    for line, is_end, tag, attributes, text in _tags(file):
        if tag in _TOPICS and is_end:
            if begun:
                yield begun, *_topic(begun, texts)
            begun, field, texts, found = "", None, {}, True
        elif tag in _TOPICS:
            if begun:
                break
            begun, field = f"{file}:{line}", None
            texts = {name.lower(): value for name, value in _ATTRIBUTE.findall(attributes)}
        else:
            field = _field_after(tag, is_end, field, texts)
        if field is not None:
            texts[field] = texts.get(field, "") + (f" {text}" if tag in _BREAKS else text)
    if begun:
        raise DatasetError(f"{begun}: this topic is not ended by </top> or </topic>")
    if not found:
        raise DatasetError(f"{file}: no topics: expected <top> with <num> and <title>, or <topic number=...>")


def _field_after(tag: str, is_end: bool, field: str | None, texts: Mapping[str, str]) -> str | None:
    if tag in _INLINE or tag in _BREAKS:
        return field
    name = _OURS.get(tag, tag)
    if is_end:
        return None if name == field else field
    return None if name in texts else name


def _tags(file: Path) -> Iterator[tuple[int, bool, str, str, str]]:
    """Line, whether it is an end tag, name and attributes of each tag, and the text that follows it."""
    content = "".join(line for _, line in read_raw_lines(file))
    content = _COMMENT.sub(lambda comment: "\n" * comment[0].count("\n"), content)
    tags = list(_TAG.finditer(content))
    line, at = 1, 0
    ends = [*(tag.start() for tag in tags), len(content)][1:]
    for tag, after in zip(tags, ends, strict=True):
        line, at = line + content.count("\n", at, tag.start()), tag.start()
        yield line, bool(tag[1]), tag[2].lower(), tag[3], unescape(content[tag.end() : after])


def _topic(begun: str, texts: dict[str, str]) -> tuple[str, dict[str, str]]:
    plain = {name: _plain(name, text) for name, text in texts.items()}
    found = next((plain[name] for name in _IDS if plain.get(name)), None)
    if found is None:
        raise DatasetError(f"{begun}: no id: expected {quoted('<num>, <number>, <identifier> or number=')}")
    return found, {name: text for name, text in plain.items() if text and name not in _IDS}


def _plain(name: str, text: str) -> str:
    """The text on one line, without the word that introduces it."""
    words = " ".join(text.split())
    label = _LABEL.match(words)
    introduces = {"number": _IDS, "topic": ("title",)}
    is_label = label is not None and name in introduces.get(label[1].lower(), (label[1].lower(),))
    return words[label.end() :] if label and is_label else words
