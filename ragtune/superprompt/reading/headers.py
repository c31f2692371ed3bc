"""Finds the parts of a prompt: headings, ``[KEY]``, bold names, ``Key: value`` lines (rule E5)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, NamedTuple

from ragtune.superprompt.reading.content import MANNER, content_lines
from ragtune.superprompt.reading.schema import Mapped, PromptSchema
from ragtune.superprompt.reading.text import code_marks, normalize_name

Form = Literal["heading", "bracket", "bold", "key_line", "line_template"]

_MAX_INDENT = 3
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(\S.*)")
_COLON = ":\uff1a"
"""The ASCII and the full-width colon, for character classes."""

_BRACKET = re.compile(rf" {{0,3}}\[([^\[\]]+)\](?!\()[ \t]*[{_COLON}]?[ \t]*(.*)")
_BULLET = re.compile(r" {0,3}[-*+][ \t]+(?=\*\*|__)")
_BOLD = re.compile(rf" {{0,3}}(\*\*|__)((?:(?!\1)[^*{_COLON}])+)(?:[{_COLON}]\1|\1[ \t]*[{_COLON}]?)[ \t]*(.*)")
_KEY_LINE = re.compile(rf" {{0,3}}(\w[^{_COLON}]*)(?::(?:[ \t]+|$)|\uff1a[ \t]*)(.*)")
_NEXT_KEY = re.compile(rf"(?<=[.;!?])[ \t]+(?=[A-ZÄÖÜ][^{_COLON}.;!?]*[{_COLON}][ \t])")
_BLANK_START = re.compile(r"\A(?:[ \t]*\n)+")


class Header(NamedTuple):
    """A line that opens a part: its name, the rest of the line, its form, and the level of a heading or 0."""

    name: str
    rest: str
    form: Form
    level: int = 0


@dataclass
class PromptSection:
    """A part of the prompt; ``header`` is None before the first header, and after a short key line and a blank line."""

    header: Header | None
    mapped: Mapped | None
    lines: list[str] = field(default_factory=list)
    in_run: bool = False
    opening: str = ""

    @property
    def written(self) -> str:
        return "\n".join(self.lines if self.header is None else [self.opening, *self.lines[1:]])

    @property
    def text(self) -> str:
        return _BLANK_START.sub("", "\n".join(self.lines)).rstrip()

    @property
    def is_known(self) -> bool:
        return self.mapped is not None and self.mapped.key is not None

    @property
    def is_one_key_line(self) -> bool:
        return self.in_run and len(self.lines) == 1

    @property
    def is_short_key_line(self) -> bool:
        """Whether the part is a ``Key: value`` line that describes the answer, ended by a blank line."""
        if self.header is None or self.header.form != "key_line" or self.mapped is None:
            return False
        said = [line for line in self.lines if line.strip()]
        return self.mapped.key in MANNER and bool(self.header.rest) and len(said) == 1 and len(self.lines) > 1


class PromptParser:
    """Splits a cleaned prompt into sections; docs/superprompt.md has the rules. Code and material hold no headers."""

    def __init__(self, schema: PromptSchema) -> None:
        self._rules = schema.headers
        self._resolve = lru_cache(maxsize=1024)(schema.resolve)
        # Room for the marks around a name: hashes, asterisks, brackets, indentation.
        self._scan = schema.headers.max_characters + 2 * len("#######") + _MAX_INDENT
        prefixes = {normalize_name(start): key for key, starts in schema.line_templates.items() for start in starts}
        self._templates = sorted(prefixes.items(), key=lambda entry: (-len(entry[0]), entry[0]))

    def sections(self, text: str) -> list[PromptSection]:
        """Return the parts in order; the first is the text before any header, and may be empty."""
        sections = [PromptSection(None, None)]
        lines = list(_lines(text))
        content = content_lines(
            [line for line, _, _ in lines],
            [in_code for _, in_code, _ in lines],
            self._resolve,
            self._rules.max_words,
        )
        is_list = bool(_BULLET.match(next((line for line, _, _ in lines if line.strip()), "")))
        for number, (line, in_code, after_gap) in enumerate(lines):
            last = sections[-1]
            closed = in_code or not line or number in content
            said = _BULLET.sub("", line) if is_list else line
            found = None if closed else self._opening(said, last, after_gap)
            if found is None:
                if line and after_gap and last.is_short_key_line:
                    sections.append(PromptSection(None, None))
                sections[-1].lines.append(line)
                continue
            header, mapped = found
            in_run = header.form == "key_line" and (mapped.key is not None or last.is_one_key_line)
            for one, known, texts in self._apart(header, mapped):
                sections.append(PromptSection(one, known, [" ".join(texts)], in_run, line))
        return sections

    def _apart(self, header: Header, mapped: Mapped) -> list[tuple[Header, Mapped, list[str]]]:
        """The parts of a line such as ``Format: JSON. Task: List teas.``, each of another known key, with its texts."""
        may_have_more = header.form == "key_line" and mapped.key is not None and '"' not in header.rest
        first, *sentences = _NEXT_KEY.split(header.rest) if may_have_more else [header.rest]
        parts = [(header, mapped, [first])]
        for sentence in sentences:
            following = next(self._readings(sentence), header)
            other = self._resolve(following.name, keywords=False)
            if other.step in ("exact", "alias", "bilingual") and other.key not in [known.key for _, known, _ in parts]:
                parts.append((following, other, [following.rest]))
            else:
                parts[-1][2].append(sentence)
        return parts

    def _opening(self, line: str, last: PromptSection, after_gap: bool) -> tuple[Header, Mapped] | None:
        unknown: tuple[Header, Mapped] | None = None
        for header in self._readings(line):
            if not self._may_be_name(header.name):
                continue
            mapped = self._resolve(header.name, keywords=header.form != "key_line")
            if mapped.key is not None:
                return header, mapped
            unknown = (header, mapped)
        templated = self._line_template(line) if after_gap else None
        if templated is not None:
            return templated
        return unknown if unknown is not None and self._opens_unknown(unknown[0], last, after_gap) else None

    def _readings(self, line: str) -> Iterator[Header]:
        if match := _HEADING.match(line):
            title = match[2].rstrip(" \t#") if len(match[2]) <= self._scan else match[2]
            level = len(match[1])
            name, colon, rest = title.partition(":")
            if colon:
                yield Header(name, rest.strip(), "heading", level)
            yield Header(title, "", "heading", level)
        elif match := _BRACKET.match(line):
            yield Header(match[1], match[2], "bracket")
        elif match := _BOLD.match(line):
            yield Header(match[2], match[3], "bold")
        elif match := _KEY_LINE.match(line):
            yield Header(match[1].rstrip(), match[2], "key_line")

    def _may_be_name(self, name: str) -> bool:
        return (
            len(name) <= self._rules.max_characters
            and len(name.split()) <= self._rules.max_words
            and any(map(str.isalpha, name))
        )

    def _line_template(self, line: str) -> tuple[Header, Mapped] | None:
        if line[: _MAX_INDENT + 1].isspace():
            return None
        words = line[: self._scan].casefold().split()
        start = " ".join(words)
        for prefix, key in self._templates:
            if start == prefix or start.startswith((prefix + " ", prefix + ":")):
                count = len(prefix.split())
                written = line.split(maxsplit=count)
                rest = written[count] if len(written) > count else ""
                if key == "system":
                    rest = line.strip()  # "Act as a chess coach." stays a whole sentence
                header = Header(" ".join(written[:count]).rstrip(":"), rest.lstrip(": "), "line_template")
                return header, Mapped(key, "template", prefix, f"line template {prefix!r}")
        return None

    def _opens_unknown(self, header: Header, last: PromptSection, after_gap: bool) -> bool:
        if header.form == "heading":
            owner = last.header if last.is_known else None
            return owner is None or owner.form != "heading" or header.level <= owner.level
        if header.form == "bracket":
            return not header.rest and len(normalize_name(header.name)) > 1
        if header.form == "bold":
            return False
        return last.is_one_key_line or (after_gap and header.name.isupper() and len(header.name) > 1)


def _lines(text: str) -> Iterator[tuple[str, bool, bool]]:
    """Each line, whether it is fenced code, and whether a blank line or nothing precedes it."""
    lines = text.split("\n")
    for line, before, marks in zip(lines, ["", *lines], code_marks(lines), strict=False):
        yield line, bool(marks), not before.strip()
