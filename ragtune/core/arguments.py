"""Checks of arguments; NumPy scalars count as Python values, and a ConfigError names what is allowed."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from enum import Enum
from typing import Any, TypeVar

from ragtune.core.errors import ConfigError
from ragtune.core.plain import quoted

EnumT = TypeVar("EnumT", bound=Enum)
MakerT = TypeVar("MakerT", bound=Callable[..., object])

_LARGEST = sys.float_info.max
_PYTHON = {str, float, int, dict}
_NEAR = 0.66  # of two names, as difflib measures it: two letters of three, such as gra for gar


def as_python(value: Any) -> Any:
    """A NumPy scalar, or an array without dimensions, as the Python value that it holds; any other value as it is."""
    return value.item() if getattr(value, "ndim", None) == 0 and hasattr(value, "item") else value


def is_missing(value: object) -> bool:
    """Whether a value stands for an unknown one: None, or one of pandas' markers ``NA`` and ``NaT``."""
    kind = type(value)
    return value is None or (kind.__name__ in ("NAType", "NaTType") and kind.__module__.startswith("pandas."))


def as_list(values: Iterable[Any]) -> list[Any]:
    """The values in their order, of Python's types instead of NumPy's; what pandas marks as missing becomes None."""
    if hasattr(values, "isna") and hasattr(values, "to_numpy"):
        pairs = zip(values.to_numpy(dtype=object), values.isna(), strict=True)
        return [None if is_unknown is True or is_missing(value) else as_python(value) for value, is_unknown in pairs]
    found = list(values)
    if {*map(type, found)} <= _PYTHON:
        return found
    return [None if is_missing(value) else as_python(value) for value in found]


def check_number(name: str, value: object, low: float = -math.inf, high: float = math.inf) -> float:
    """``value`` as a finite float in [low, high]."""
    found = as_python(value)
    if (
        isinstance(found, int | float)
        and not isinstance(found, bool)
        and abs(found) <= _LARGEST
        and low <= found <= high
    ):
        return float(found)
    raise ConfigError(f"{name}={quoted(value)}: allowed is a number{_range(low, high)}")


def check_count(name: str, value: object, low: int = 0, high: float = math.inf) -> int:
    """``value`` as an int in [low, high]."""
    found = as_python(value)
    if isinstance(found, int) and not isinstance(found, bool) and low <= found <= high:
        return found
    raise ConfigError(f"{name}={quoted(value)}: allowed is a whole number{_range(low, high)}")


def check_vectors(name: str, value: MakerT) -> MakerT:
    """``value`` if it can be called, as what makes the text vectors of a corpus is."""
    if callable(value):
        return value
    raise ConfigError(
        f"{name}={quoted(value)}: allowed is what makes the text vectors of a corpus: vectors@{name}=NAME, of tfidf, "
        "dense and candidates, chooses one"
    )


def check_flag(name: str, value: object) -> bool:
    """``value`` as a bool, if it is True or False."""
    found = as_python(value)
    if isinstance(found, bool):
        return found
    raise ConfigError(f"{name}={quoted(value)}: allowed are true and false")


def check_choice(name: str, value: str, allowed: Iterable[str]) -> str:
    """``value`` if it is one of ``allowed``."""
    choices = list(allowed)
    if value in choices:
        return value
    meant = did_you_mean(value, choices) if isinstance(value, str) else ""
    raise ConfigError(f"{name}={quoted(value)}: allowed are {', '.join(choices)}{meant}")


def check_member(kind: type[EnumT], name: str, value: Any) -> EnumT:
    """The member of an enumeration of texts that ``value`` is, or is the text of."""
    return kind(check_choice(name, value, [member.value for member in kind]))


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """``; did you mean X?`` with what is spelled nearly so, or nothing."""
    near = nearest(name, known)
    return f"; did you mean {near}?" if near else ""


def nearest(name: str, known: Sequence[str]) -> str | None:
    """The known name that is spelled nearly so; None if none is."""
    return next(iter(get_close_matches(name, known, n=1, cutoff=_NEAR)), None)


def _range(low: float, high: float) -> str:
    if math.isinf(high):
        return "" if math.isinf(low) else f" >= {low:g}"
    return f" in [{low:g}, {high:g}]"
