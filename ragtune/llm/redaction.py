"""Takes secrets out of whatever a server or a library says, however they are spelled there."""

from __future__ import annotations

import base64
import logging
import re
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

_HIDDEN = "[secret]"
_SHORTEST_SECRET = 4  # shorter ones would hide half of the language
_PART = 12  # so many characters of a secret in a row are hidden wherever they stand
_SHORTEST_ENCODED = 8
# Possessive, and begun at the first backslash only: a reply of nothing but backslashes takes linear time.
_ESCAPED = re.compile(r"(?<!\\)\\++(?:u00([2-7][0-9a-f])|x([2-7][0-9a-f])|(?=/))|%([2-7][0-9a-f])", re.IGNORECASE)
_DIGITS = re.compile(r"[-+.e0-9]+")
_LIBRARIES = ("openai", "httpx", "httpcore")


class Redactor:
    """Knows the secrets of one connection, which alone may hold it.

    Hidden are a secret and any twelve characters of it in a row, as they are, in the escapes of JSON and URLs, in
    base64 at any offset and in hexadecimal digits.

    Args:
        secrets: keys and passwords; blank ones, and such as are shorter than four characters, are nobody's.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        known = [secret for secret in secrets if len(secret) >= _SHORTEST_SECRET]
        encoded = [form for secret in known for form in _encodings(secret) if len(form) >= _SHORTEST_ENCODED]
        forms = sorted({*known, *encoded}, key=lambda form: (-len(form), form))
        # A run of 2n characters holds a block of n that begins at a multiple of n: one look at every n-th is enough.
        self._step = min((_shown_part(form) // 2 for form in forms), default=1)
        self._blocks: dict[str, list[tuple[str, int]]] = {}
        for form in forms:
            for at in range(len(form) - self._step + 1):
                self._blocks.setdefault(form[at : at + self._step], []).append((form, at))
        self._has_numbers = any(len(run) >= _shown_part(one) for one in known for run in _DIGITS.findall(one))

    def text(self, text: str) -> str:
        """``text`` without any secret. Where escapes spelled one, the text's other escapes are resolved as well."""
        if not self._blocks:
            return text
        plain = _ESCAPED.sub(_character, text)
        if plain != text and self._hide(plain) != plain:
            text = plain
        return self._hide(text)

    def json(self, value: Any) -> Any:
        """The JSON value without any secret, names of fields included; a number that spells one becomes None."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.json(entry) for entry in value]
        if isinstance(value, dict):
            return {self.text(name): self.json(entry) for name, entry in value.items()}
        return None if self._has_numbers and self.text(repr(value)) != repr(value) else value

    def watch_logs(self) -> None:
        """Hide the secrets in whatever the libraries log while this redactor lives: they log headers of replies."""
        _LOG_FILTER.redactors.add(self)
        for name in list(logging.root.manager.loggerDict):
            if name.startswith(_LIBRARIES):
                logging.getLogger(name).addFilter(_LOG_FILTER)

    def _hide(self, text: str) -> str:
        step, blocks, covered = self._step, self._blocks, 0
        spans: list[tuple[int, int]] = []
        for start in [at for at in range(0, len(text) - step + 1, step) if text[at : at + step] in blocks]:
            if start + step <= covered:
                continue
            for form, at in blocks[text[start : start + step]]:
                span = _widened(text, start, form, at)
                if span[1] - span[0] >= _shown_part(form):
                    spans.append(span)
                    covered = max(covered, span[1])
        return _cut(text, sorted(spans)) if spans else text


class _LogFilter(logging.Filter):
    """Lets every record pass, without secrets."""

    def __init__(self) -> None:
        super().__init__()
        self.redactors: weakref.WeakSet[Redactor] = weakref.WeakSet()

    def filter(self, record: logging.LogRecord) -> bool:
        said = record.getMessage()
        for redactor in list(self.redactors):
            said = redactor.text(said)
        record.msg, record.args = said, ()
        return True


_LOG_FILTER = _LogFilter()


def _shown_part(form: str) -> int:
    """The fewest characters of it that are hidden."""
    return min(_PART, len(form))


def _character(escape: re.Match[str]) -> str:
    digits = next(filter(None, escape.groups()), None)
    return "" if digits is None else chr(int(digits, 16))


def _encodings(secret: str) -> Iterator[str]:
    """What base64 makes of the secret whatever stands around it, in both alphabets, and hexadecimal digits."""
    data = secret.encode()
    for before in range(3):
        whole = base64.b64encode(bytes(before) + data).decode()
        # The characters at either end depend on the neighbours too.
        form = whole[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]
        yield form
        yield form.replace("+", "-").replace("/", "_")
    yield data.hex()
    yield data.hex().upper()


def _widened(text: str, start: int, secret: str, at: int) -> tuple[int, int]:
    """The longest run around ``text[start]`` that is equal to the secret around its ``at``-th character."""
    if text.startswith(secret, max(0, start - at)) and start >= at:
        return start - at, start - at + len(secret)
    back = 0
    while back < min(start, at) and text[start - back - 1] == secret[at - back - 1]:
        back += 1
    ahead = 0
    while ahead < min(len(text) - start, len(secret) - at) and text[start + ahead] == secret[at + ahead]:
        ahead += 1
    return start - back, start + ahead


def _cut(text: str, spans: list[tuple[int, int]]) -> str:
    kept, position = [], 0
    for start, end in spans:
        if start >= position:
            kept += [text[position:start], _HIDDEN]
        position = max(position, end)
    return "".join([*kept, text[position:]])
