"""The values of a record, checked: ids, numbers, text."""

from __future__ import annotations

from typing import Any

from ragtune.core.errors import DatasetError
from ragtune.core.plain import quoted


def id_of(value: Any, where: str, name: str) -> str:
    """Return an id as text; a whole number is an id too, since tables often hold their ids as numbers.

    Raises:
        DatasetError: if it is neither text nor a whole number.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    is_whole = isinstance(value, float) and value.is_integer()
    form = f", here {value:.0f}: pandas writes ids as decimals where the column lacks a value" if is_whole else ""
    raise DatasetError(f"{where}: {name!r} is {quoted(value)}: allowed is text or a whole number{form}")


def number_of(value: Any, where: str, name: str) -> float:
    """Return a number, which text files spell.

    Raises:
        DatasetError: if the value is no number.
    """
    try:
        if isinstance(value, (int, float, str)) and not isinstance(value, bool):
            return float(value)
    except (ValueError, OverflowError):
        pass
    raise DatasetError(f"{where}: {name!r} is {quoted(value)}: allowed is a number")


def require_text(value: str, where: str) -> str:
    """Return ``value`` if it can be written to a file.

    Args:
        value: a document's, query's or id's text.
        where: the beginning of the error message, e.g. ``corpus.jsonl:13: 'text' is``.

    Raises:
        DatasetError: if it holds half of a surrogate pair, which JSON can spell and no encoding can write.
    """
    try:
        value.encode()
    except UnicodeEncodeError:
        raise DatasetError(f"{where} {quoted(value)}: it holds half of a character (a lone surrogate)") from None
    return value


def require_id(value: str, where: str) -> str:
    """Return ``value`` if it can be a field of a TREC file.

    Args:
        value: a document's or query's id.
        where: as in :func:`require_text`.

    Raises:
        DatasetError: if it is empty, or holds whitespace, NUL or half of a surrogate pair.
    """
    if value.split() != [value] or "\0" in value:
        raise DatasetError(f"{where} {quoted(value)}: an id holds no whitespace and no NUL, and at least one character")
    return require_text(value, where)
