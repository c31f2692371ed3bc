"""Options from files and single values, over the packaged defaults."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from ragtune.core.arguments import did_you_mean
from ragtune.core.errors import ConfigError
from ragtune.core.plain import quoted
from ragtune.superprompt.frozen import flaws_in
from ragtune.superprompt.limits import packaged
from ragtune.superprompt.options import PromptOptions
from ragtune.superprompt.reading.schema import PromptSchema

Values = Mapping[str, Any]

_TABLES = {"version", "keys", "must_keys", "defaults", "aliases", "bilingual"} | {
    *("header_templates", "line_templates", "keywords")
}
_REPLACED = ("memory.metadata", "llm.prices", "llm.extra")  # mappings that are one value


def load_options(file: str | Path | None = None, *changes: Values) -> PromptOptions:
    """Return the options of a file, with single ones replaced.

    Args:
        file: YAML or JSON with any of the keys of :class:`PromptOptions`; other keys have their defaults. None for the
            defaults alone.
        changes: further mappings of the same form; later ones override earlier ones.

    Raises:
        ConfigError: if the file cannot be read, a key is unknown, or a value is not allowed; the message names it.

    Example:
        >>> load_options(None, {"reranker": {"kind": "none"}}).reranker.kind
        'none'
    """
    name, layers = "options", list(changes)
    if file is not None:
        name = str(file)
        try:
            text = Path(file).expanduser().read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"configuration {name!r} cannot be read ({error})") from error
        layers.insert(0, parse_options(text, name))
    merged: dict[str, Any] = {**json.loads(packaged()), "prompt_schema": PromptSchema.load().model_dump()}
    for layer in layers:
        merged = _over(merged, layer)
    try:
        return PromptOptions.model_validate(merged)
    except ValidationError as error:
        raise ConfigError(f"{name}: {_unknown(error) or flaws_in(error)}") from None


def parse_options(text: str, name: str = "configuration") -> dict[str, Any]:
    """Return the unchecked mapping of a configuration's text; empty for an empty text.

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
    """Return ``llm.mode=replay`` as a mapping; the value is YAML.

    Raises:
        ConfigError: if the text has another form.
    """
    name, separator, value = text.partition("=")
    if not separator or not name.strip():
        raise ConfigError(f"{text!r}: expected NAME=VALUE, e.g. llm_off=refuse or reranker.budget=30")
    return nested({name.strip(): parse_options(f"value: {value}", repr(text)).get("value")})


def nested(flat: Values) -> dict[str, Any]:
    """Return ``{"llm.mode": "live"}`` as ``{"llm": {"mode": "live"}}``."""
    made: dict[str, Any] = {}
    for name, value in flat.items():
        *above, last = name.split(".")
        place = made
        for part in above:
            place = place.setdefault(part, {})
        place[last] = value
    return made


def write_options(options: PromptOptions) -> str:
    """Return options as YAML that :func:`load_options` reads, without the DSN and its password.

    ``docs/prompt-options.yaml`` has the meaning of each option.
    """
    values = options.model_dump(mode="json", by_alias=True, exclude={"memory": {"dsn"}, "prompt_schema": _TABLES})
    values["request_words"].sort()
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=118)


def _over(below: Values, above: Values, place: str = "") -> dict[str, Any]:
    """Merge ``above`` into ``below``, mapping by mapping."""
    merged = dict(below)
    for key, value in above.items():
        # Limits have two spellings, which must become one.
        name = str(key).upper() if place == "limits" else key
        old, where = merged.get(name), f"{place}.{name}".strip(".")
        both = isinstance(old, Mapping) and isinstance(value, Mapping) and where not in _REPLACED
        merged[name] = _over(old, value, where) if both and old is not None else value
    return merged


def _unknown(error: ValidationError) -> str | None:
    """A message about an unknown option, with a similar name or all names."""
    *above, last = next((flaw["loc"] for flaw in error.errors() if flaw["type"] == "extra_forbidden"), [""])
    if not last:
        return None
    model: type[BaseModel] = PromptOptions
    for part in above:
        field = model.model_fields[str(part)]
        kinds = (field.annotation, *get_args(field.annotation))
        model = next(kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel))
    known = [field.alias or name for name, field in model.model_fields.items()]
    near = did_you_mean(str(last), known) or f": allowed are {', '.join(known)}"
    return f"{'.'.join(map(str, [*above, last]))}: there is no such option{near}"
