"""Checks of what a study's configuration says; each raises a ``ConfigError`` that names the key and what is allowed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from experiments.report.study import Claim, Prices
from ragtune.core.errors import ConfigError
from ragtune.core.units import Unit


def is_count(value: Any) -> bool:
    """Whether it is an integer >= 1."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def is_listed(values: Any, is_good: Callable[[Any], bool]) -> bool:
    """Whether it is a list of at least one value, all of them good."""
    return isinstance(values, (list, tuple)) and bool(values) and all(map(is_good, values))


def require_names(what: str, names: Sequence[str]) -> None:
    """Refuse names that are missing, repeated or no file name."""
    if not names:
        raise ConfigError(f"{what} is empty: name at least one")
    for name in names:
        if not isinstance(name, str) or not name or set(name) & set("/\\\0|"):
            raise ConfigError(f"{what}: name {name!r}: allowed is a text without slashes and bars")
        if names.count(name) > 1:
            raise ConfigError(f"{what}: the name {name!r} is given twice")


def require_known(what: str, given: Any, known: Sequence[Any]) -> None:
    """Refuse a value that is not among the known ones."""
    if not isinstance(given, (list, tuple)):
        raise ConfigError(f"{what}={given!r}: allowed is a list of {', '.join(map(str, known))}")
    for value in given:
        if value not in known:
            raise ConfigError(f"{what}: unknown {value!r}: allowed are {', '.join(map(str, known))}")


def is_amount(value: Any) -> bool:
    """Whether it is a finite number above 0."""
    return is_number(value) and 0 < value < float("inf")


def is_number(value: Any) -> bool:
    """Whether it is a number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def require_budgets(budgets: Any, unit: Unit) -> None:
    """Refuse budgets that do not ascend, or are no amounts of the unit."""
    numbers, is_good = ("integers >= 1", is_count) if unit.is_count else ("numbers > 0", is_amount)
    if not is_listed(budgets, is_good) or list(budgets) != sorted(set(budgets)):
        raise ConfigError(f"budgets={budgets!r}: allowed are ascending {numbers}, e.g. [10, 20, 50]")


def require_measures(measures: Any) -> None:
    """Refuse anything but a list of names."""
    if not measures:
        raise ConfigError("measures is empty: name at least one, e.g. nDCG@10; the first is the headline")
    if not is_listed(measures, lambda name: isinstance(name, str)):
        raise ConfigError(f"measures={measures!r}: allowed is a list of names, e.g. [nDCG@10, AP]")


def require_prices(prices: Prices) -> None:
    """Refuse a price below what is allowed."""
    for name, value in vars(prices).items():
        least = 1 if name == "docs_per_unit" else 0
        if not is_number(value) or not least <= value < float("inf"):
            raise ConfigError(f"prices.{name}={value!r}: allowed is a number >= {least}")


def require_claim(claim: Claim, policies: Sequence[str], budgets: Sequence[float]) -> None:
    """Refuse a claim about policies or budgets that there are not, or with a bad margin or share."""
    where = f"claim {claim.name!r}"
    require_known(f"{where}: policy", [claim.policy], policies)
    require_known(f"{where}: against", claim.against, policies)
    require_known(f"{where}: budgets", claim.budgets, budgets)
    require_known(f"{where}: depth", [claim.depth], ["same", "spent", "fewer", *budgets])
    if not is_number(claim.margin) or claim.margin < 0:
        raise ConfigError(f"{where}: margin={claim.margin!r}: allowed is a number >= 0")
    if claim.ahead is not None and not (is_number(claim.ahead) and 0 < claim.ahead <= 1):
        raise ConfigError(f"{where}: ahead={claim.ahead!r}: allowed is a number above 0, at most 1")
