"""Builds a component from its node of the configuration."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from hydra.errors import InstantiationException
from hydra.utils import instantiate
from pydantic import ValidationError

from experiments.config.options import did_you_mean_option, known_options
from experiments.config.targets import require_allowed
from ragtune.core import interfaces
from ragtune.core.errors import ConfigError, InputError
from ragtune.core.request.budget import CostBudget

HARNESS_KEYS = {"dataset": ("scores", "sample", "file", "candidates")}
"""Keys of a group's file that the harness reads itself and constructors do not get."""


def component(config: Mapping[str, Any], group: str, resources: Mapping[str, Any] | None = None) -> Any:
    """Build the component that ``config[group]`` describes."""
    node = {k: v for k, v in config[group].items() if k not in HARNESS_KEYS.get(group, ())}
    _require_class(group, node)
    require_allowed(node, group)
    try:
        made = instantiate(node, _convert_="all")
        made = complete(made, resources or {}) if isinstance(made, partial) else made
        _require_kind(group, node, made)
        return made
    except (InstantiationException, TypeError, ValueError, ImportError) as error:
        raise readable(error, group, node) from error


def _require_class(group: str, node: Mapping[str, Any]) -> None:
    target = node.get("_target_")
    if not isinstance(target, str):
        said = " is missing" if target is None else f"={target!r}"
        raise ConfigError(f"{group}._target_{said}: allowed is the name of a class; {group}=NAME chooses one")


def _require_kind(group: str, node: Mapping[str, Any], made: object) -> None:
    kind = CostBudget if group == "budget" else getattr(interfaces, f"Base{group.capitalize()}", object)
    if not isinstance(made, kind) and not (made is None and group == "expander"):
        raise ConfigError(
            f"{group}._target_={node['_target_']!r}: allowed is a {kind.__name__}; {group}=NAME chooses one"
        )


def complete(made: partial[Any], resources: Mapping[str, Any]) -> Any:
    """Call what lacks arguments with those of the resources that it names and was not given."""
    wanted = inspect.signature(made.func).parameters
    given = {name: value for name, value in resources.items() if name in wanted and name not in made.keywords}
    return made(**given)


def readable(error: BaseException, group: str, node: Mapping[str, Any]) -> Exception:
    """What went wrong in making a component, in the words of the configuration."""
    while isinstance(error, InstantiationException) and error.__cause__ is not None:  # of a part, however deep
        error = error.__cause__
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        key = ".".join([group, *map(str, first["loc"])])
        return ConfigError(f"{key}={first['input']!r}: {first['msg'].removeprefix('Value error, ')}")
    if isinstance(error, InputError):
        return error
    unknown = _UNKNOWN.search(str(error)) if isinstance(error, TypeError) else None
    if unknown and (path := _path(node, unknown[1])):
        name = f"{group}.{path}"
        return ConfigError(f"unknown option {name!r}{did_you_mean_option(name, known_options())}")
    if isinstance(error, (TypeError, ValueError, ImportError)):
        return ConfigError(f"{group} ({node.get('_target_')}): {error}")
    return error if isinstance(error, Exception) else RuntimeError(str(error))


_UNKNOWN = re.compile(r"got an unexpected keyword argument '(\w+)'")


def _path(node: Mapping[str, Any], option: str) -> str | None:
    """The option with the names of the parts of a component that lead to it; None if no part has it."""
    if option in node:
        return option
    parts = {name: part for name, part in node.items() if isinstance(part, Mapping)}
    return next((f"{name}.{path}" for name, part in parts.items() if (path := _path(part, option))), None)
