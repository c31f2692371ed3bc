"""What components report of costs and errors, checked before it is believed."""

from __future__ import annotations

from operator import itemgetter, le
from typing import Any

from pydantic import ValidationError

from ragtune.core.plain import quoted, well_formed
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import CostObject
from ragtune.core.units import FLOPS, UNITS

_MOST = {unit.name: 10.0**30 if unit is FLOPS else 2**53 for unit in UNITS}
"""Amounts above it are no bill: a float could not count them one by one. Of a large model's operations it need not."""

_AMOUNTS = itemgetter(*_MOST)
_KINDS, _LEAST, _HIGHEST = [int if unit.is_count else float for unit in UNITS], [0] * len(UNITS), list(_MOST.values())


def describe(error: BaseException) -> str:
    """An error in one line of at most 500 characters: its type and what it says."""
    try:
        said = " ".join(str(error).split())
    except Exception:
        said = "it cannot say what is wrong"
    return well_formed(f"{type(error).__name__}: {said}"[:500])


def checked(cost: Any) -> CostObject:
    """A component's cost, validated again: whoever made it may have skipped that.

    Raises:
        TypeError: if it is no cost.
        ValueError: if an amount is negative, not finite or beyond all bounds.
    """
    if not isinstance(cost, CostObject):
        raise TypeError(f"a cost of type {type(cost).__name__}: allowed is CostObject")
    amounts = _AMOUNTS(cost.__dict__)
    if list(map(type, amounts)) == _KINDS and all(map(le, _LEAST, amounts)) and all(map(le, amounts, _HIGHEST)):
        return cost  # what the model would say, at a tenth of its time: this runs several times a batch
    made = CostObject.model_validate(cost.__dict__.copy())
    for unit, amount in made.__dict__.items():
        if amount > _MOST[unit]:
            raise ValueError(f"a cost of {quoted(made.by_unit())}: allowed are amounts of {unit} up to {_MOST[unit]:g}")
    return made


def reported(context: RAGtuneContext, cost: CostObject | None, otherwise: CostObject) -> CostObject:
    """A cost that a component has reported, or ``otherwise`` where it reported none or none that can be."""
    if cost is None:
        return otherwise
    try:
        return checked(cost)
    except ValidationError as error:
        first = error.errors()[0]
        why = f"{'.'.join(map(str, first['loc']))}={quoted(first['input'])}: {first['msg']}"
    except Exception as error:
        why = describe(error)
    context.trace.add("controller", "bad_report", error=why)
    return otherwise
