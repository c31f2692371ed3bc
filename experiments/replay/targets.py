"""Which classes a configuration may name as ``_target_``: a preset must not call whatever Python can import."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib.metadata import entry_points
from typing import Any

from hydra.utils import get_object

from ragtune.core.errors import ConfigError

OWN_PACKAGES = frozenset({"ragtune", "experiments"})

GROUP = "ragtune.components"
"""Entry points by which an installed package offers its components."""

VARIABLE = "RAGTUNE_COMPONENTS"
"""Environment variable with further packages, separated by commas: the user's word, which no preset can set."""


def targets(node: Any) -> Iterator[str]:
    """Every class that a node names."""
    for value in node.values() if isinstance(node, Mapping) else node if isinstance(node, (list, tuple)) else ():
        yield from targets(value)
    if isinstance(node, Mapping) and isinstance(target := node.get("_target_"), str):
        yield target


def require_allowed(node: Any, group: str) -> None:
    """Refuse a node that names anything but classes, and their constructors, of allowed packages.

    Args:
        node: plain data, nested nodes included.
        group: where it stands, for the message.

    Raises:
        ConfigError: naming the value, and how to allow a package.
    """
    allowed = allowed_packages(os.environ.get(VARIABLE, ""))
    for target in targets(node):
        package = target.partition(".")[0]
        if package not in allowed:
            raise ConfigError(
                f"{group}._target_={target!r}: allowed are classes of {', '.join(sorted(allowed))}; to allow your own "
                f"package, set {VARIABLE}={package} or install it with an entry point of the group {GROUP}"
            )
        if not _is_component(target, allowed):
            raise ConfigError(
                f"{group}._target_={target!r}: allowed is a class of an allowed package, or its constructor"
            )


@lru_cache(maxsize=8)
def allowed_packages(named: str) -> frozenset[str]:
    """The project's packages, those of the entry points, and those named, separated by commas."""
    words = {word.strip() for word in named.split(",")} - {""}
    return OWN_PACKAGES | words | {entry.module.partition(".")[0] for entry in entry_points(group=GROUP)}


@lru_cache(maxsize=256)
def _is_component(target: str, allowed: frozenset[str]) -> bool:
    """Whether it is a class of such a package, or one's method; what cannot be imported is refused elsewhere.

    ``experiments.x.shutil.rmtree`` begins with an allowed package and is none of its own.
    """
    try:
        found = get_object(target)
    except Exception:
        return True
    owner = found if isinstance(found, type) else getattr(found, "__self__", None)
    return isinstance(owner, type) and owner.__module__.partition(".")[0] in allowed
