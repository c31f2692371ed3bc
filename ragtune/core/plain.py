"""Facts of any kind as data that JSON can hold."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_QUOTED = 80  # characters
_JSON = json.JSONEncoder(ensure_ascii=False)  # json.dumps would make one each time


def plain(details: Any) -> Any:
    """What a component wants to be noted, if JSON can hold it; else the same in words."""
    if details is None or details == {}:
        return details
    try:
        _JSON.encode(details).encode()
        return details
    except Exception:
        pairs = details.items() if isinstance(details, dict) else [("value", details)]
        return {words(key): _value(value) for key, value in pairs}


def words(value: object) -> str:
    """A text as it is, any other value as a message quotes it; at most 200 characters that can be written down."""
    return well_formed(value[:200]) if isinstance(value, str) else quoted(value)


def quoted(value: object) -> str:
    """A value as a message quotes it: in Python's notation, on one line, at most 80 characters."""
    try:
        text = repr(value)
        text = " ".join(text.split()) if "\n" in text else text  # an array is written on many
    except Exception:  # nested too deep, a number of too many digits, or a component's object that cannot say
        return f"a {type(value).__name__}"
    return well_formed(text if len(text) <= _QUOTED else f"{text[: _QUOTED - 4]}...{text[-1]}")


def count_of(amount: float, noun: str) -> str:
    """An amount with its noun, which is given in the plural: ``1 query``, ``2.5 documents``."""
    singular = f"{noun[:-3]}y" if noun.endswith("ies") else noun.removesuffix("s")
    return f"{amount:,.4g} {singular if amount == 1 else noun}" if amount < 1e4 else f"{amount:,.0f} {noun}"


def html_table(caption: str, rows: Sequence[Mapping[str, object]]) -> str:
    """Rows with the same names as a table of HTML, which notebooks show; texts are escaped, long ones cut."""
    from html import escape  # its table of entities is for notebooks alone

    lines: list[tuple[str, Iterable[object]]] = [
        ("th", rows[0] if rows else ()),
        *(("td", row.values()) for row in rows),
    ]
    cells = ("".join(f"<{tag}>{escape(words(value))}</{tag}>" for value in line) for tag, line in lines)
    return f"<table><caption>{escape(caption)}</caption>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


def describe(error: BaseException) -> str:
    """An error in one line of at most 500 characters: its type and what it says."""
    try:
        said = " ".join(str(error).split())
    except Exception:  # a component's own error, whose message cannot be made
        said = "it cannot say what is wrong"
    return well_formed(f"{type(error).__name__}: {said}"[:500])


def first_line(error: BaseException) -> str:
    """The first line of what an error says; its type where it says nothing."""
    return next(iter(str(error).splitlines()), type(error).__name__)


def well_formed(text: str) -> str:
    """``text`` with every lone surrogate replaced by ``?``: neither UTF-8 nor JSON over HTTP can carry one."""
    try:
        if not text.isascii():
            text.encode()
        return text
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode("utf-8")


def _value(value: Any) -> Any:
    """A NumPy scalar as the number that it is; anything else that JSON cannot hold in words."""
    try:
        number = value.item() if hasattr(value, "item") else value
        json.dumps(number, allow_nan=False, ensure_ascii=False).encode()
        return number
    except Exception:
        return words(value)
