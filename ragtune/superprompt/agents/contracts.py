"""The answers that agents accept, as Pydantic models made from their configurations.

A wrong value of a chooser is no reason to ask again: the chooser clamps it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    WithJsonSchema,
    create_model,
    model_validator,
)

from ragtune.superprompt.agents.config import CERTAINTY, ITEM_ID, ChooserConfig, ExtractorConfig, WriterConfig

_SHARE: Mapping[str, Any] = {"type": "number", "minimum": 0, "maximum": 1}


class Contract(BaseModel):
    """An answer, read by :meth:`values`. Unknown keys are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    def values(self) -> dict[str, Any]:
        """Return the answer by the configuration's names."""
        return {field.alias or name: getattr(self, name) for name, field in type(self).model_fields.items()}


class _Record(Contract):
    """An object with at least one of the fields; any other answers another question."""

    @model_validator(mode="before")
    @classmethod
    def _has_a_field(cls, value: Any) -> Any:
        names = [field.alias for field in cls.model_fields.values()]
        if isinstance(value, Mapping) and not any(name in value for name in names):
            raise ValueError(f"none of {', '.join(map(str, names))} is in it")
        return value


class _Items(Contract):
    """An object with the list ``items``, or the list alone."""

    @model_validator(mode="before")
    @classmethod
    def _bare(cls, value: Any) -> Any:
        return {"items": value} if isinstance(value, list) else value


def record_contract(config: ChooserConfig) -> type[Contract]:
    """Return the contract of a chooser over the whole input: its fields, each with any value or none."""
    fields: dict[str, tuple[Any, Any]] = {
        name: (Annotated[Any, WithJsonSchema(_enum(config, name, {}))], None) for name in config.fields
    }
    certainty = Annotated[Any, WithJsonSchema(dict(_SHARE))]
    return _model(config.title, _Record, {**fields, CERTAINTY: (certainty, None)})


def items_contract(config: ChooserConfig, enums: Mapping[str, Sequence[str]], most: int) -> type[Contract]:
    """Return the contract of a chooser over items: ``items``, a list of objects with ``id`` and the fields.

    For servers that enforce schemas, an entry requires all keys, and there are at most ``most`` entries. So a small
    model can neither leave a key out nor continue until its answer is cut off.
    """
    properties = {ITEM_ID: {"type": "integer"}, **{name: _enum(config, name, enums) for name in config.fields}}
    entry = {"type": "object", "properties": {**properties, CERTAINTY: _SHARE}, "required": [*properties, CERTAINTY]}
    schema = {"type": "array", "maxItems": most, "items": entry}
    return _model(config.title, _Items, {"items": (Annotated[list[dict[str, Any]], WithJsonSchema(schema)], ...)})


def extractor_contract(config: ExtractorConfig) -> type[Contract]:
    """Return the contract of an extractor: required keys are not empty; JSON in place of a text is written out."""
    fields: dict[str, tuple[Any, Any]] = {}
    for name, key in config.keys.items():
        least = 1 if key.required else 0
        if key.type == "text":
            kind: Any = Annotated[
                str, StringConstraints(strip_whitespace=True, min_length=least), BeforeValidator(_as_text)
            ]
            fields[name] = (kind, ... if key.required else "")
        else:
            kind = Annotated[list[str], Field(min_length=least), BeforeValidator(_as_list)]
            fields[name] = (kind, ... if key.required else ())
    return _model(config.title, Contract, fields)


def writer_contract(config: WriterConfig) -> type[Contract]:
    """Return the contract of a writer: a text, and scores by item number; invalid scores are left out."""
    text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
    schema = WithJsonSchema({"type": "object", "additionalProperties": dict(_SHARE)})
    scores = Annotated[dict[int, float], BeforeValidator(_as_scores), schema]
    return _model(config.title, Contract, {config.text_key: (text, ...), config.scores_key: (scores, {})})


def number_of(value: Any) -> int | None:
    """Return the item number of a value: a whole number, or its digits; None for anything else."""
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit():
        return int(value.strip()[:9])
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def share_of(value: Any) -> float | None:
    """Return the value as a number in [0, 1]; None for anything else."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) and 0.0 <= value <= 1.0 else None


def _model(name: str, base: type[Contract], fields: Mapping[str, tuple[Any, Any]]) -> type[Contract]:
    # Numbered names with aliases: a configuration may name a field like a method of Pydantic models.
    definitions: dict[str, Any] = {
        f"field_{i}": (kind, Field(default, alias=key)) for i, (key, (kind, default)) in enumerate(fields.items())
    }
    return create_model(name, __base__=base, **definitions)


def _enum(config: ChooserConfig, name: str, enums: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    field = config.fields[name]
    return {"enum": [*enums.get(name, field.enum), *([None] if field.default is None else [])]}


def _as_text(value: Any) -> Any:
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False, indent=2) if isinstance(value, dict | list) else value


def _as_list(value: Any) -> Any:
    if value is None:
        return []
    return [line for line in value.split("\n") if line.strip()] if isinstance(value, str) else value


def _as_scores(value: Any) -> dict[int, float]:
    if isinstance(value, list):
        entries = [entry for entry in value if isinstance(entry, dict)]
        pairs = [(entry.get(ITEM_ID), entry.get("score", entry.get("relevance"))) for entry in entries]
    else:
        pairs = list(value.items()) if isinstance(value, dict) else []
    known = [(number_of(key), share_of(score)) for key, score in pairs]
    return {number: score for number, score in known if number is not None and score is not None}
