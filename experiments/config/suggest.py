"""What somebody may have meant who named an option or a choice that does not exist."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from experiments.config.options import known_options
from experiments.config.paths import CONF
from ragtune.core.arguments import did_you_mean, nearest

_SLIP = 0.9

_NAMED_OTHERWISE = {"policy": "experiment", "docs": "budget"}
"""Options of the library, and what they are called here."""

_PLACED = re.compile(r"# @package (\w+\.\w+)\n")


def did_you_mean_option(name: str, groups: Sequence[str]) -> str:
    """What may have been meant by an option that the chosen components do not have.

    An option of another choice is told with that choice; then comes one whose name is a slip away, then one of its own
    group that has all its words and more, then one of the same last name elsewhere, then one of a name that is somewhat
    like it.

    Args:
        name: the full name, e.g. ``estimator.kappa``.
        groups: the options that a command has, by their first parts.
    """
    known = {option: choices for option, choices in options().items() if option.partition(".")[0] in groups}
    if name in known:
        return f"; it is an option of {' or '.join(known[name])}"
    names = [*groups, "experiment", *_NAMED_OTHERWISE]  # experiment is a group without an option
    if "." not in name and (meant := nearest(name, names)):
        return f"; did you mean {_NAMED_OTHERWISE.get(meant, meant)}?"
    group, _, leaf = name.rpartition(".")
    same_leaf = [option for option in known if option.rpartition(".")[2] == leaf]
    beside = [option for option in known if option.rpartition(".")[0] == group]
    longer = [option for option in beside if set(leaf.split("_")) <= set(option.rpartition(".")[2].split("_"))]
    near = get_close_matches(name, known, n=1, cutoff=_SLIP) or get_close_matches(
        name, longer or same_leaf, n=1, cutoff=0.0
    )
    if not near:
        return did_you_mean(name, list(known))
    choices = [choice for choice in known[near[0]] if not choice.startswith("conf=")]
    whose = f" (an option of {choices[0]})" if len(choices) == 1 else ""
    return f"; did you mean {near[0]}?{whose}"


def without_dashes(name: str, root: str = "config") -> str:
    """The end of a message about an option that was given with dashes, as no NAME=VALUE is.

    Args:
        name: the option, without its dashes.
        root: the file of conf/ whose options may have been meant.
    """
    known = known_options(root)
    meant = f"; did you mean {name}?" if name in known else did_you_mean_option(name, known)
    return re.sub(r"did you mean ([\w.]+)\?", r"did you mean \1=VALUE?", meant)


@lru_cache(maxsize=1)
def options() -> dict[str, list[str]]:
    """Every option of ``conf/`` by its full name, with the choices that have it."""
    found: dict[str, list[str]] = {}
    for file in [CONF / "config.yaml", *sorted(CONF.glob("*/*.yaml"))]:
        for name in _names(file):
            found.setdefault(name, []).append(f"{file.parent.name}={file.stem}")
    return found


def _names(file: Path) -> Iterator[str]:
    text = file.read_text(encoding="utf-8")
    content: dict[str, Any] = yaml.safe_load(text) or {}
    placed = _PLACED.match(text)  # one of several of a group is told by its name
    group = "" if file.parent == CONF else f"{placed[1] if placed else file.parent.name}."
    for default in content.pop("defaults", ()):
        # "/acquisition@acquisition: NAME" puts the options of a group's file below this component.
        for source, choice in default.items() if isinstance(default, dict) else ():
            folder, _, place = source.strip("/").partition("@")
            if place and "override" not in source and (CONF / folder / f"{choice}.yaml").is_file():
                below = _names(CONF / folder / f"{choice}.yaml")
                yield from (f"{group}{place}{name.removeprefix(folder)}" for name in below)
    yield from _dotted({key: value for key, value in content.items() if key not in ("hydra", "_target_")}, group)


def _dotted(options: dict[str, Any], before: str) -> Iterator[str]:
    for key, value in options.items():
        yield f"{before}{key}"
        if isinstance(value, dict):
            yield from _dotted({str(name): below for name, below in value.items()}, f"{before}{key}.")
