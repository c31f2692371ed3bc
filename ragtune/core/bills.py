"""What components report of costs and errors, checked before it is believed."""

from __future__ import annotations

import math
from typing import Any

from pydantic import ValidationError

from ragtune.core.context import RAGtuneContext
from ragtune.core.types import CostObject

_KINDS = {"tokens": int, "docs": int, "calls": int, "latency_ms": float, "usd": float}


def describe(error: Exception) -> str:
    """An error in one line: its type and what it says."""
    return f"{type(error).__name__}: {error}"


def checked(cost: Any) -> CostObject:
    """A component's cost, validated again: whoever made it may have skipped that.

    Raises:
        TypeError: if it is no cost.
        pydantic.ValidationError: if an amount is negative or not finite.
    """
    if not isinstance(cost, CostObject):
        raise TypeError(f"a cost of type {type(cost).__name__}: allowed is CostObject")
    amounts = cost.by_unit()
    if all(type(amounts[unit]) is kind and 0 <= amounts[unit] < math.inf for unit, kind in _KINDS.items()):
        return cost  # what the model would say, at a tenth of its time: this runs several times a batch
    return CostObject.model_validate(amounts)


def reported(context: RAGtuneContext, cost: CostObject | None, otherwise: CostObject) -> CostObject:
    """A cost that a component has reported, or ``otherwise`` where it reported none or none that can be."""
    if cost is None:
        return otherwise
    try:
        return checked(cost)
    except (KeyError, TypeError, ValidationError) as error:
        context.trace.add("controller", "bad_report", error=describe(error).splitlines()[0])
        return otherwise
