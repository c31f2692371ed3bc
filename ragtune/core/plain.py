"""Facts of any kind as data that JSON can hold."""

from __future__ import annotations

import json
from typing import Any


def plain(details: Any) -> Any:
    """What a component wants to be noted, if JSON can hold it; else the same in words."""
    try:
        json.dumps(details, ensure_ascii=False).encode()
        return details
    except Exception:
        words = details.items() if isinstance(details, dict) else [("value", details)]
        return {_words(key): _value(value) for key, value in words}


def _value(value: Any) -> Any:
    """A NumPy scalar as the number that it is; anything else that JSON cannot hold in words."""
    try:
        number = value.item() if hasattr(value, "item") else value
        json.dumps(number, allow_nan=False, ensure_ascii=False).encode()
        return number
    except Exception:
        return _words(value)


def _words(value: object) -> str:
    try:
        said = value if isinstance(value, str) else repr(value)
    except Exception:
        said = type(value).__name__
    return said[:200].encode("utf-8", "replace").decode()
