"""Limits by the names that callers give them, as the budget that they are."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ValidationError

from ragtune.core.errors import ConfigError
from ragtune.core.plain import quoted
from ragtune.core.request.budget import CostBudget
from ragtune.core.units import LIMITS


def budget_of(limits: Mapping[str, float | None]) -> CostBudget:
    """The budget of these limits by unit, e.g. ``{"docs": 10, "ms": 200}``; None limits nothing."""
    if not isinstance(limits, Mapping):
        raise ConfigError(f"budget={quoted(limits)}: allowed is a dict of {', '.join(LIMITS)}")
    unknown = [name for name in limits if name not in LIMITS]
    given = {LIMITS[name]: limit for name, limit in limits.items() if name in LIMITS and limit is not None}
    if unknown or not given:
        problem = f"unknown limit {', '.join(map(repr, unknown))}" if unknown else "no budget given"
        raise ConfigError(f"{problem}: name at least one of {', '.join(LIMITS)}")
    for name, limit in limits.items():
        if isinstance(limit, bool | str):
            raise ConfigError(f"{name}={limit!r}: allowed is a number")
    try:
        # Nothing is assembled from these tokens, so the reranker may have them all.
        return CostBudget.only(**given, assembly_token_buffer=0)
    except ValidationError as error:
        first = error.errors()[0]
        name = next(name for name, field in LIMITS.items() if field in first["loc"])
        raise ConfigError(f"{name}={first['input']!r}: {first['msg']}") from None
