"""Options from files and single values, over the packaged defaults; what is wrong is told by its full name."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from ragtune.core.arguments import did_you_mean
from ragtune.core.errors import ConfigError
from ragtune.core.plain import quoted
from ragtune.superprompt.limits import DEFAULTS
from ragtune.superprompt.options.model import PromptOptions
from ragtune.superprompt.reading.schema import PromptSchema

Values = Mapping[str, Any]

_SCHEMA, _SCHEMA_FILE = "prompt_schema", "schema_file"
_REPLACED = ("memory.metadata", "llm.prices", "llm.extra")  # mappings that are one value


def load_options(file: str | Path | None = None, *changes: Values) -> PromptOptions:
    """The options of a file, single ones replaced.

    Args:
        file: YAML or JSON with any of the keys of :class:`PromptOptions`; what it does not name has its default. None
            for the defaults alone.
        changes: further mappings of the same form, each over what comes before it.

    Raises:
        ConfigError: if the file cannot be read, a key is unknown, or a value is not allowed; the message names it.
    """
    if file is None:
        return make_options(changes)
    path = Path(file).expanduser()
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"configuration {str(file)!r} cannot be read ({error})") from error
    return make_options([parse_options(text, str(file)), *changes], str(file))


def parse_options(text: str, name: str = "configuration") -> dict[str, Any]:
    """The mapping that a configuration's text holds, not checked yet; empty for an empty text.

    Args:
        text: YAML or JSON.
        name: name of the text for messages.

    Raises:
        ConfigError: if the text is no mapping.
    """
    try:
        values = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{name}: not YAML ({' '.join(str(error).split())[:200]})") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(f"{name}: {quoted(values)}: allowed are options, as ragtune prompt --print-config shows")
    return values


def parse_change(text: str) -> dict[str, Any]:
    """``llm.mode=replay`` as a mapping; the value is read as YAML.

    Raises:
        ConfigError: if the text has another form.
    """
    name, separator, value = text.partition("=")
    if not separator or not name.strip():
        raise ConfigError(f"{text!r}: expected NAME=VALUE, e.g. llm_off=refuse or reranker.budget=30")
    try:
        parsed = yaml.safe_load(value)
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"{text!r}: the value is not YAML ({' '.join(str(error).split())[:100]})") from None
    return nested({name.strip(): parsed})


def nested(flat: Values) -> dict[str, Any]:
    """``{"llm.mode": "live"}`` as ``{"llm": {"mode": "live"}}``."""
    made: dict[str, Any] = {}
    for name, value in flat.items():
        *above, last = name.split(".")
        place = made
        for part in above:
            place = place.setdefault(part, {})
        place[last] = value
    return made


def make_options(layers: Sequence[Values], name: str = "options") -> PromptOptions:
    """Options out of mappings, each over the one before, all over the packaged defaults.

    Raises:
        ConfigError: on the first key or value that is not allowed, with a near name where there is one.
    """
    merged: dict[str, Any] = {}
    for layer in layers:
        merged = _over(merged, layer)
    schema_file = merged.get(_SCHEMA_FILE)
    schema = _packaged_schema() if schema_file is None else PromptSchema.load(str(schema_file)).model_dump()
    whole = _over({**_packaged(), _SCHEMA: schema}, merged)
    try:
        return PromptOptions.model_validate(whole)
    except ValidationError as error:
        raise ConfigError(f"{name}: {_told(error.errors()[0])}") from None


def _over(below: Values, above: Values, place: str = "") -> dict[str, Any]:
    """``above`` merged into ``below``, mapping by mapping."""
    merged = dict(below)
    for key, value in above.items():
        # Limits may be written either way; merged, there must be one of each.
        name = str(key).upper() if place == "limits" else key
        old, where = merged.get(name), f"{place}.{name}".strip(".")
        both = isinstance(old, Mapping) and isinstance(value, Mapping) and where not in _REPLACED
        merged[name] = _over(old, value, where) if both and old is not None else value
    return merged


@cache
def _packaged() -> dict[str, Any]:
    values: dict[str, Any] = json.loads((files("ragtune.superprompt.config") / DEFAULTS).read_text(encoding="utf-8"))
    return values


@cache
def _packaged_schema() -> dict[str, Any]:
    return PromptSchema.load().model_dump()


def _told(error: ErrorDetails) -> str:
    """One flaw with its full name, the value, and what is allowed."""
    location = [str(part) for part in error["loc"]]
    name = ".".join(location)
    if error["type"] == "extra_forbidden":
        known = _keys(location[:-1])
        near = did_you_mean(location[-1], known)
        return f"{name}: there is no such option{near or ': allowed are ' + ', '.join(known)}"
    if error["type"] == "literal_error":
        return f"{name}={quoted(error['input'])}: allowed are {_choices(error)}"
    what = error["msg"].removeprefix("Value error, ")
    return f"{name}={quoted(error['input'])}: {what}" if name else what


def _choices(error: ErrorDetails) -> str:
    return str(error["ctx"]["expected"]).replace(" or ", ", ").replace("'", "")


def _keys(location: Sequence[str]) -> list[str]:
    """Names of the options at a place."""
    model: type[BaseModel] = PromptOptions
    for part in location:
        below = model_of(model.model_fields[part]) if part in model.model_fields else None
        if below is None:
            return []
        model = below
    return [field.alias or name for name, field in model.model_fields.items()]


def model_of(field: FieldInfo) -> type[BaseModel] | None:
    """The model of an option that holds options; None for one that holds a value."""
    kinds = (field.annotation, *get_args(field.annotation))
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)
