"""Which classes a configuration may name as ``_target_``. A preset must not call any function that Python finds."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from hydra.utils import get_object
from omegaconf import DictConfig, ListConfig
from omegaconf.errors import OmegaConfBaseException

from experiments.config.paths import CONF
from experiments.config.sources import OWN_PACKAGES
from ragtune.core.errors import ConfigError

HYDRAS_PACKAGES = frozenset({"hydra", "hydra_plugins", "optuna"})

_LOGGING, _STREAMS = frozenset({"logging", "colorlog"}), ("sys.stdout", "sys.stderr")

GROUP = "ragtune.components"
"""Entry points by which an installed package offers its components."""

VARIABLE = "RAGTUNE_COMPONENTS"
"""Environment variable with further packages, separated by commas: the user's word, which no preset can set."""

_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")


_TARGET = re.compile(r"^ *_target_: ([\w.]+)", re.MULTILINE)


def targets(node: Any) -> Iterator[str]:
    """Every class that a node names."""
    for value in node.values() if isinstance(node, Mapping) else node if isinstance(node, (list, tuple)) else ():
        yield from targets(value)
    if isinstance(node, Mapping) and "_target_" in node:
        yield str(node["_target_"])


def require_allowed(node: Any, group: str, further: frozenset[str] = frozenset()) -> None:
    """Refuse a node that names anything but classes, and their constructors, of allowed packages."""
    allowed = allowed_packages(os.environ.get(VARIABLE, "")) | further
    for target in targets(node):
        package = target.partition(".")[0]
        if package not in allowed:
            raise ConfigError(
                f"{group}._target_={target!r}: allowed are classes of {', '.join(sorted(allowed))}; to allow your own "
                f"package, set {VARIABLE}={package} or install it with an entry point of the group {GROUP}"
            )
        if not is_component(target, allowed) and target not in _shipped():
            raise ConfigError(
                f"{group}._target_={target!r}: allowed is a class of an allowed package, or its constructor"
            )


def require_hydra_allowed(hydra: Any) -> None:
    """Refuse what a preset could have Hydra call: launchers, sweepers, callbacks, and the parts of logging."""
    for name in ("callbacks", "launcher", "sweeper"):
        require_allowed(_plain(hydra.get(name)), f"hydra.{name}", HYDRAS_PACKAGES)
    if (_plain(hydra.get("sweeper")) or {}).get("custom_search_space"):
        raise ConfigError("hydra.sweeper.custom_search_space: a configuration cannot name a function")
    for name in ("hydra_logging", "job_logging"):
        for made in _made_by_logging(_plain(hydra.get(name))):
            if not is_component(made, _LOGGING) and made not in _STREAMS:
                raise ConfigError(f"hydra.{name}: {made!r} is not allowed: allowed are classes of logging and colorlog")
    if VARIABLE in (_plain(hydra.job.get("env_set")) or {}):
        raise ConfigError(f"hydra.job.env_set.{VARIABLE}: a configuration cannot set it; set it in the shell")


def _made_by_logging(node: Any) -> Iterator[str]:
    """Whatever ``logging.config`` would look up by a name."""
    for key, value in node.items() if isinstance(node, Mapping) else enumerate(node) if isinstance(node, list) else ():
        if key in ("()", "class", "factory") or str(value).startswith("ext://"):
            yield str(value).removeprefix("ext://")
        yield from _made_by_logging(value)


def _plain(node: Any) -> Any:
    """A node as plain data, without what cannot be resolved yet: Hydra sets these texts and numbers later."""
    if not isinstance(node, (DictConfig, ListConfig)):
        return node
    keys = list(range(len(node)) if isinstance(node, ListConfig) else node)
    found = {}
    for key in keys:
        with suppress(OmegaConfBaseException):
            found[key] = _plain(node[key])
    return list(found.values()) if isinstance(node, ListConfig) else found


@lru_cache(maxsize=1)
def _shipped() -> set[str]:
    """What the project's own files of ``conf/`` name, among them a function that opens a store."""
    return targets_of(sorted(CONF.glob("*/*.yaml")))


@lru_cache(maxsize=8)
def allowed_packages(named: str) -> frozenset[str]:
    """The project's packages, those of the entry points, and those named, separated by commas."""
    words = {word.strip() for word in named.split(",")} - {""}
    return OWN_PACKAGES | words | {entry.module.partition(".")[0] for entry in entry_points(group=GROUP)}


@lru_cache(maxsize=256)
def is_component(target: str, allowed: frozenset[str]) -> bool:
    """Whether such a package defines the class or class method itself: what it imports or inherits may run anything."""
    if not _NAME.fullmatch(target):
        return False
    logging.getLogger("hydra.utils").setLevel(logging.CRITICAL)  # it would print what the error's message has
    try:
        found = get_object(target)
    except Exception:
        return True
    if isinstance(found, type):
        return _package(found) in allowed
    owner, function = getattr(found, "__self__", None), getattr(found, "__func__", None)
    return isinstance(owner, type) and {_package(owner), _package(function)} <= allowed


def _package(thing: object) -> str:
    return str(getattr(thing, "__module__", "")).partition(".")[0]


def targets_of(files: list[Path]) -> set[str]:
    """The classes and functions that files of conf/ name."""
    return {target for file in files for target in _TARGET.findall(file.read_text(encoding="utf-8"))}
