"""Normalize (rule D2): the same text on every platform and in every locale."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from ragtune.canonical.types import Segment
from ragtune.core.arguments import as_python
from ragtune.core.errors import InputError

SEPARATOR = "\n\n"
"""Text between two segments: the end of a paragraph."""

_BOM = "\ufeff"
_LINE_END = re.compile("\r\n|[\r\v\f\x85\u2028\u2029]")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_MAX_DEPTH = 64
_MAX_INTEGER = 10**1000


class SegmentSpan(BaseModel):
    """Where a segment lies in a normalized text; ``end`` is one past its last character."""

    start: int = Field(ge=0)
    end: int = Field(ge=0)
    metadata: dict[str, Any] = Field(default_factory=dict)

    model_config = ConfigDict(frozen=True, extra="forbid")


class NormalizedText(BaseModel):
    """The result of :func:`normalize`; plain text is one segment without metadata."""

    text: str
    segments: tuple[SegmentSpan, ...]

    model_config = ConfigDict(frozen=True, extra="forbid")


def normalize(content: str | bytes | Sequence[Segment]) -> NormalizedText:
    r"""The content's normalized text; normalizing that again changes nothing.

    - Line ends (CR LF, CR, VT, FF, NEL, LS, PS: the Unicode Standard's newline functions, section 5.8) become ``\n``.
    - Other control characters (category Cc, NUL included) but ``\t``, and lone surrogates, are removed. Format
      characters (Cf) stay: right-to-left texts and emoji need them.
    - The rest is brought to Unicode NFC, which for assigned characters is the same in every Unicode version.
    - Segments are normalized one by one and joined by an empty line.
    """
    if isinstance(content, bytes):
        content = _decode(content)
    if isinstance(content, str):
        text = _normalize(content)
        return NormalizedText(text=text, segments=(SegmentSpan(start=0, end=len(text)),))
    texts, spans, start = [], [], 0
    for place, segment in enumerate(_segments(content)):
        texts.append(_normalize(segment.text))
        metadata = check_metadata(segment.metadata, f"metadata of segment {place}")
        end = start + len(texts[-1])
        spans.append(SegmentSpan(start=start, end=end, metadata=metadata))
        start = end + len(SEPARATOR)
    return NormalizedText(text=SEPARATOR.join(texts), segments=tuple(spans))


def check_metadata(metadata: object, name: str = "metadata") -> dict[str, Any]:
    """A copy of ``metadata``, if it is a JSON object that PostgreSQL can keep as ``jsonb``."""
    if not isinstance(metadata, dict):
        raise InputError(f"{name}={_quote(metadata)}: allowed is a JSON object")
    checked: dict[str, Any] = _checked_json(metadata, name, _MAX_DEPTH)
    return checked


def check_string(value: object, name: str) -> str:
    """``value`` if it is a string that PostgreSQL can keep as ``text``."""
    if not isinstance(value, str):
        raise InputError(f"{name}={_quote(value)}: allowed is a string")
    if (found := _UNSTORABLE.search(value)) is not None:
        raise InputError(
            f"{name}={_quote(value)}: allowed is text without NUL and lone surrogates, "
            f"U+{ord(found.group()):04X} stands at {found.start()}"
        )
    return value


def _checked_json(value: object, name: str, depth: int) -> Any:
    if depth == 0:
        raise InputError(f"{name}: allowed are at most {_MAX_DEPTH} levels of lists and objects")
    if isinstance(value, dict):
        return {
            check_string(key, f"key of {name}"): _checked_json(inner, f"{name}[{_quote(key)}]", depth - 1)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [_checked_json(inner, f"{name}[{place}]", depth - 1) for place, inner in enumerate(value)]
    found = as_python(value)
    if isinstance(found, str):
        return check_string(found, name)
    if isinstance(found, int) and abs(found) >= _MAX_INTEGER:
        raise InputError(f"{name}: allowed are integers of at most 1000 digits")
    if not (found is None or isinstance(found, int) or (isinstance(found, float) and math.isfinite(found))):
        raise InputError(f"{name}={_quote(found)}: allowed are JSON values (no NaN, no infinity)")
    return found


def _quote(value: object) -> str:
    try:
        return repr(value)[:100]
    except ValueError:  # Python prints no integer of many thousand digits
        return f"a value of type {type(value).__name__}"


def _decode(content: bytes) -> str:
    try:
        return content.decode("utf-8").removeprefix(_BOM)
    except UnicodeDecodeError as error:
        raise InputError(
            f"the content is not UTF-8: byte 0x{content[error.start]:02X} at offset {error.start} ({error.reason})"
        ) from error


def _segments(content: object) -> Sequence[Segment]:
    if isinstance(content, Sequence) and all(isinstance(segment, Segment) for segment in content):
        return content
    raise InputError(f"content of type {type(content).__name__}: allowed are str, bytes and a sequence of Segment")


def _normalize(text: str) -> str:
    return unicodedata.normalize("NFC", _CONTROL.sub("", _LINE_END.sub("\n", text)))
