"""UTF-8 files as users have them, gzipped or not, with a byte order mark or not, and checks of the values in them."""

from __future__ import annotations

import gzip
import json
import math
import zlib
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from ragtune.core.errors import DatasetError
from ragtune.core.plain import quoted

_GZIP = b"\x1f\x8b"

MAX_LINE = 2**26
"""Bytes of the longest line that is read."""

MAX_RATIO, _FREE = 200, 2**26
"""A gzipped file of more than ``_FREE`` bytes unpacked may hold ``MAX_RATIO`` times its size. Runs and corpora come to
3 to 30 times; the limit of gzip itself is 1,032."""


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield number (from 1) and text of every line that is not blank, without its line end and byte order mark."""
    for number, line in read_raw_lines(path):
        text = line.rstrip("\r\n")
        if text and not text.isspace():
            yield number, text


def read_raw_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield number (from 1) and text of every line, blank ones too, gzipped or not, without byte order marks."""
    number = size = 0
    with path.open("rb") as file:
        is_packed = file.peek(2).startswith(_GZIP)
        lines = gzip.GzipFile(fileobj=file) if is_packed else file
        most = max(_FREE, MAX_RATIO * path.stat().st_size) if is_packed else math.inf
        try:
            while raw := lines.readline(MAX_LINE + 1):
                number, size = number + 1, size + len(raw)
                if len(raw) > MAX_LINE:
                    raise DatasetError(f"{path}:{number}: a line of more than {MAX_LINE:,} bytes: split it")
                if size > most:
                    raise DatasetError(
                        f"{path}: unpacks to more than {most:,} bytes, {MAX_RATIO} times its size: "
                        "if that is right, unpack the file first"
                    )
                yield number, _decoded(raw, path, number)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DatasetError(f"{path}: damaged gzip file after line {number}: {error}") from None


def _decoded(raw: bytes, path: Path, number: int) -> str:
    if b"\0" in raw and not raw.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        raise DatasetError(f"{path}:{number}: a zero byte: it looks like UTF-16: save it as UTF-8")
    try:
        # At the head of every line: files that each begin with a mark are joined by `cat`.
        return raw.removeprefix(BOM_UTF8).decode()
    except UnicodeDecodeError as error:
        guess = ": it looks like UTF-16" if raw.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else ""
        byte = f"byte 0x{error.object[error.start]:02x} at position {error.start} of the line"
        raise DatasetError(f"{path}:{number}: not UTF-8 ({byte}){guess}: save it as UTF-8") from None


def read_json(content: str | bytes) -> Any:
    """Parse JSON."""
    try:
        return json.loads(content.removeprefix(BOM_UTF8).decode() if isinstance(content, bytes) else content)
    except RecursionError:
        raise ValueError("nested too deep") from None


def id_of(value: Any, where: str, name: str) -> str:
    """Return an id as text; a whole number is an id too, since tables often hold their ids as numbers."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    is_whole = isinstance(value, float) and value.is_integer()
    form = f", here {value:.0f}: pandas writes ids as decimals where the column lacks a value" if is_whole else ""
    raise DatasetError(f"{where}: {name!r} is {quoted(value)}: allowed is text or a whole number{form}")


def number_of(value: Any, where: str, name: str) -> float:
    """Return a finite number, which text files spell."""
    with suppress(ValueError, OverflowError):
        if isinstance(value, (int, float, str)) and not isinstance(value, bool) and math.isfinite(float(value)):
            return float(value)
    raise DatasetError(f"{where}: {name!r} is {quoted(value)}: allowed is a finite number")


def require_text(value: str, where: str) -> str:
    """Return ``value`` if it can be written to a file."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise DatasetError(f"{where} {quoted(value)}: it holds half of a character (a lone surrogate)") from None
    return value


def require_id(value: str, where: str) -> str:
    """Return ``value`` if it can be a field of a TREC file."""
    if value.split() != [value] or "\0" in value:
        raise DatasetError(f"{where} {quoted(value)}: an id holds no whitespace and no NUL, and at least one character")
    return require_text(value, where)
