"""TREC topics: SGML as of old, whose tags are seldom closed, and XML (web tracks, TREC-COVID, CLEF)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from ragtune.core.errors import DatasetError
from ragtune.core.plain import quoted
from ragtune.data.files.textfile import read_raw_lines

_TOPICS = ("top", "topic")
_IDS = ("num", "number", "identifier", "id", "qid")
_OURS = {"desc": "description", "narr": "narrative"}
"""Short names of fields."""

_INLINE = (
    "a",
    "abbr",
    "b",
    "big",
    "cite",
    "code",
    "em",
    "font",
    "i",
    "mark",
    "small",
    "span",
    "strong",
    "sub",
    "sup",
    "u",
)
_BREAKS = ("br", "div", "li", "ol", "p", "ul")
"""Tags of HTML within a field's text, which begin no field; around the latter, words end."""

_LABEL = re.compile(r"(number|topic|description|narrative)\s*:\s*", re.IGNORECASE)
"""Words that introduce a field in TREC's older files: ``<num> Number: 301``."""


def read_topics(file: Path) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Where each topic begins (``FILE:LINE``), its id, and its fields with text, e.g. ``title``, ``description``.

    Raises:
        DatasetError: naming the file and the line, if there is no topic, or one without an id or not ended.
    """
    parser = _Topics(file)
    for number, line in read_raw_lines(file):
        parser.number = number
        parser.feed(line)
        yield from parser.taken()
    parser.close()
    parser.end_of_file()
    yield from parser.taken()


class _Topics(HTMLParser):
    """Collects the text of each tag between ``<top>`` and ``</top>``; a tag ends where the next one begins."""

    def __init__(self, file: Path) -> None:
        super().__init__(convert_charrefs=True)
        self.number = 0
        self._file = file
        self._begun: str | None = None
        self._texts: dict[str, list[str]] = {}
        self._field: str | None = None
        self._done: list[tuple[str, str, dict[str, str]]] = []
        self._found = 0

    def taken(self) -> list[tuple[str, str, dict[str, str]]]:
        """The topics that are whole since it was last asked."""
        done, self._done = self._done, []
        return done

    def set_cdata_mode(self, *_: Any, **__: Any) -> None:
        """Do nothing: newer versions of Python read on to ``</title>``, which old topics do not have."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _TOPICS:
            self._require_ended(f"before another <{tag}> on line {self.number}")
            self._begun, self._field = f"{self._file}:{self.number}", None
            self._texts = {name: [value] for name, value in attrs if name in _IDS and value}
        elif not self._is_within(tag) and self._begun is not None:
            # Of a field that comes again (subtopics), the first counts.
            name = _OURS.get(tag, tag)
            self._field = None if name in self._texts else name
            if self._field:
                self._texts[name] = []

    def handle_endtag(self, tag: str) -> None:
        if tag in _TOPICS:
            self._finish()
        elif not self._is_within(tag) and _OURS.get(tag, tag) == self._field:
            self._field = None

    def _is_within(self, tag: str) -> bool:
        """Whether a tag marks up the text of the field that has begun."""
        if self._field is not None and tag in _BREAKS:
            self._texts[self._field].append(" ")
        return tag in _INLINE or tag in _BREAKS

    def handle_data(self, data: str) -> None:
        if self._field is not None:
            self._texts[self._field].append(data)

    def end_of_file(self) -> None:
        """Nothing more comes."""
        self._require_ended("at the end of the file")
        if not self._found:
            raise DatasetError(f"{self._file}: no topics: expected <top> with <num> and <title>, or <topic number=...>")

    def _require_ended(self, when: str) -> None:
        if self._begun is not None:
            raise DatasetError(f"{self._begun}: this topic is not ended by </top> or </topic> {when}")

    def _finish(self) -> None:
        if self._begun is None:
            raise DatasetError(f"{self._file}:{self.number}: the end of a topic that has not begun")
        texts = {name: _plain(name, "".join(parts)) for name, parts in self._texts.items()}
        found = next((texts[name] for name in _IDS if texts.get(name)), None)
        if found is None:
            raise DatasetError(f"{self._begun}: no id: expected {quoted('<num>, <number>, <identifier> or number=')}")
        fields = {name: text for name, text in texts.items() if text and name not in _IDS}
        self._done.append((self._begun, found, fields))
        self._begun, self._field = None, None
        self._found += 1


def _plain(name: str, text: str) -> str:
    """The text on one line, without the word that introduces it."""
    words = " ".join(text.split())
    label = _LABEL.match(words)
    return words[label.end() :] if label and _introduces(label[1].lower(), name) else words


def _introduces(label: str, name: str) -> bool:
    return label == name or (label == "number" and name in _IDS) or (label == "topic" and name == "title")
