"""The files of conf/ that a configuration is composed of, found without composing it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from experiments.config.paths import CONF

_CHOICE = re.compile(r"^  - (?:override )?/?([\w/]+)(?:@[\w.]+)?: ([\w-]+)", re.MULTILINE)
"""An entry of a defaults list."""

_TARGET = re.compile(r"^ *_target_: ([\w.]+)", re.MULTILINE)


def files_of(chosen: Mapping[str, str], root: str = "config") -> list[Path]:
    """The files that the defaults lists of ``conf/ROOT.yaml`` lead to, by path.

    Args:
        chosen: choices by group, in place of the lists' own; of a group with an empty name nothing is followed.
        root: the file to begin with.
    """
    todo, found = [CONF / f"{root}.yaml"], dict[Path, None]()
    while todo:
        file = todo.pop()
        if file in found or not file.is_file():
            continue
        found[file] = None
        todo += [CONF / group / f"{name}.yaml" for group, name in _choices(file, chosen)]
    return sorted(found)


def _choices(file: Path, chosen: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for group, name in _CHOICE.findall(file.read_text(encoding="utf-8")):
        if now := chosen.get(group, name):
            yield group, now


def targets_of(files: list[Path]) -> set[str]:
    """The classes and functions that files of conf/ name."""
    return {target for file in files for target in _TARGET.findall(file.read_text(encoding="utf-8"))}
