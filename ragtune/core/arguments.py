"""Checks of constructor arguments: a bad value is refused by quoting it and saying what is allowed."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ragtune.core.errors import ConfigError
from ragtune.core.plain import quoted


def check_number(name: str, value: object, low: float = -math.inf, high: float = math.inf) -> float:
    """``value`` as a finite float in [low, high].

    Raises:
        ConfigError: naming the argument, the value and the range.
    """
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and low <= value <= high:
        return float(value)
    raise ConfigError(f"{name}={quoted(value)}: allowed is a number{_range(low, high)}")


def check_positive(name: str, value: object) -> float:
    """``value`` as a finite float above 0.

    Raises:
        ConfigError: naming the argument and the value.
    """
    number = check_number(name, value)
    if number > 0:
        return number
    raise ConfigError(f"{name}={quoted(value)}: allowed is a number > 0")


def check_count(name: str, value: object, low: int = 0, high: float = math.inf) -> int:
    """``value`` as an int in [low, high].

    Raises:
        ConfigError: naming the argument, the value and the range.
    """
    if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
        return value
    raise ConfigError(f"{name}={quoted(value)}: allowed is a whole number{_range(low, high)}")


def check_choice(name: str, value: str, allowed: Iterable[str]) -> str:
    """``value`` if it is one of ``allowed``.

    Raises:
        ConfigError: naming the argument, the value and the choices.
    """
    choices = list(allowed)
    if value in choices:
        return value
    raise ConfigError(f"{name}={quoted(value)}: allowed are {', '.join(choices)}")


def _range(low: float, high: float) -> str:
    if math.isinf(high):
        return "" if math.isinf(low) else f" >= {low:g}"
    return f" in [{low:g}, {high:g}]"
