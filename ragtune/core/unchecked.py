"""Making many Pydantic objects of values that have been checked before."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel

Model = TypeVar("Model", bound=BaseModel)

_set_values = object.__setattr__
_set_fields, _set_extra, _set_private = (
    BaseModel.__dict__[slot].__set__
    for slot in ("__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
)
_FIELDS: dict[type[BaseModel], set[str]] = {}


def unchecked(model: type[Model], values: dict[str, Any]) -> Model:
    """An instance without validation, ``values`` naming every field.

    A request hands out thousands of documents and snapshots whose values the corpus or the pool has checked already;
    this takes a fifth of the time of ``model_copy`` or ``model_construct``.
    """
    made = model.__new__(model)
    fields = _FIELDS.get(model)
    if fields is None:
        fields = _FIELDS[model] = set(model.model_fields)
    _set_values(made, "__dict__", values)
    _set_fields(made, fields)
    _set_extra(made, None)
    _set_private(made, None)
    return made
