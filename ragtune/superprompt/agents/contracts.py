"""What agents must answer, as Pydantic models made from their configurations.

They are as lenient as the kind is: a chooser's wrong value is for the chooser to clamp, and no reason to ask again.
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
_CERTAINTY = Annotated[Any, WithJsonSchema(dict(_SHARE))]


class Contract(BaseModel):
    """An answer; keys that were not asked for are ignored. Read it by :meth:`values`."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    def values(self) -> dict[str, Any]:
        """The answer by the configuration's own names."""
        return {field.alias or name: getattr(self, name) for name, field in type(self).model_fields.items()}


class _Record(Contract):
    """An object with at least one of the fields: any other is no answer to this question."""

    @model_validator(mode="before")
    @classmethod
    def _says_something(cls, value: Any) -> Any:
        names = [field.alias for field in cls.model_fields.values()]
        if isinstance(value, Mapping) and not any(name in value for name in names):
            raise ValueError(f"none of {', '.join(map(str, names))} is in it")
        return value


class _Items(Contract):
    """An object with the list ``items``; a bare list will do."""

    @model_validator(mode="before")
    @classmethod
    def _bare(cls, value: Any) -> Any:
        return {"items": value} if isinstance(value, list) else value


def record_contract(config: ChooserConfig) -> type[Contract]:
    """The contract of a chooser over the whole input: its fields, each with any value or none."""
    return _model(config.title, _Record, _choice_fields(config, {}))


def items_contract(config: ChooserConfig, enums: Mapping[str, Sequence[str]], most: int) -> type[Contract]:
    """The contract of a chooser over items: ``items``, a list of objects with ``id`` and the fields.

    A server that enforces schemas is told that an entry has all of them, and that there are ``most`` entries at most,
    so that a small model can neither leave a key out nor go on until its answer is cut off.
    """
    properties = {ITEM_ID: {"type": "integer"}, **{name: _enum(config, name, enums) for name in config.fields}}
    entry = {"type": "object", "properties": {**properties, CERTAINTY: _SHARE}, "required": [*properties, CERTAINTY]}
    schema = {"type": "array", "maxItems": most, "items": entry}
    kind = Annotated[list[dict[str, Any]], WithJsonSchema(schema)]
    return _model(config.title, _Items, {"items": (kind, ...)})


def extractor_contract(config: ExtractorConfig) -> type[Contract]:
    """The contract of an extractor: required keys are not empty; JSON in place of a text is written out."""
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
    """The contract of a writer: a text, and scores by item number; what is not a score is left out."""
    text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
    scores = Annotated[
        dict[int, float],
        BeforeValidator(_as_scores),
        WithJsonSchema({"type": "object", "additionalProperties": dict(_SHARE)}),
    ]
    return _model(config.title, Contract, {config.text_key: (text, ...), config.scores_key: (scores, {})})


def number_of(value: Any) -> int | None:
    """The item that a value names: a whole number, also in digits."""
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit():
        return int(value.strip()[:9])
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def share_of(value: Any) -> float | None:
    """The value as a number in [0, 1]; None if it is anything else."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) and 0.0 <= value <= 1.0 else None


def _model(name: str, base: type[Contract], fields: Mapping[str, tuple[Any, Any]]) -> type[Contract]:
    # Numbered names with aliases: a configuration may call a field what a Pydantic model calls a method.
    definitions: dict[str, Any] = {
        f"field_{i}": (kind, Field(default, alias=key)) for i, (key, (kind, default)) in enumerate(fields.items())
    }
    return create_model(name, __base__=base, **definitions)


def _choice_fields(config: ChooserConfig, enums: Mapping[str, Sequence[str]]) -> dict[str, tuple[Any, Any]]:
    fields: dict[str, tuple[Any, Any]] = {
        name: (Annotated[Any, WithJsonSchema(_enum(config, name, enums))], None) for name in config.fields
    }
    return {**fields, CERTAINTY: (_CERTAINTY, None)}


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
