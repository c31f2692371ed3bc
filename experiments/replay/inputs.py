"""The identity of a run: the options that decide its results, and the content of every file that they name."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hydra.utils import get_object

from experiments.config.options import WHERE_NOT_WHAT, results_key
from experiments.config.sources import OWN_PACKAGES, Sources
from experiments.config.targets import targets
from experiments.datasets.dataset import DatasetLoader
from experiments.replay.component import component
from ragtune.core.component import Component, FileArguments, files_of
from ragtune.core.errors import ConfigError, InputError
from ragtune.data.caches.diskcache import sha256_of
from ragtune.rerankers.score_table import manifest_of


def identity(config: Mapping[str, Any]) -> dict[str, Any]:
    """What identifies a run, as plain data for its journal and its summary."""
    inputs = InputFiles().of(config)
    settings = sha256(results_key(config).encode()).hexdigest()
    fingerprint = sha256(json.dumps([settings, inputs], sort_keys=True).encode()).hexdigest()
    return {"fingerprint": fingerprint, "settings": settings, "inputs": inputs}


def require_same(
    ours: Mapping[str, Any],
    theirs: Mapping[str, Any],
    what: str,
    because: str = "resume=true",
    otherwise: str = "choose another hydra.run.dir",
) -> None:
    """Refuse to resume what another configuration began, or what was begun with other data."""
    if ours["fingerprint"] == theirs.get("fingerprint"):
        return
    former = theirs.get("inputs")
    if ours.get("settings") != theirs.get("settings") or not isinstance(former, dict):
        why = "another configuration: repeat that command's options"
    else:
        file = min(file for file, _ in ours["inputs"].items() ^ former.items())
        event = "has changed" if file in former and file in ours["inputs"] else "came or went"
        why = f"other data: {file!r} {event} since: put back what was there"
    raise ConfigError(f"{because}, but {what} {why}, or {otherwise}")


class InputFiles:
    """Content hashes of the files that configurations name; each path is looked at once."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, str]] = {}
        self._sources = Sources()

    def of(self, config: Mapping[str, Any]) -> dict[str, str]:
        """SHA-256 by path, sorted, of what the dataset reads and what the options of components name."""
        groups = {name: node for name, node in config.items() if name not in ("dataset", *WHERE_NOT_WHAT)}
        found = self._dataset(config["dataset"]) if "dataset" in config else {}
        for text, is_read in set(_texts(groups)):
            found = found | self._remembered(f"{is_read}:{text}", lambda t=text, r=is_read: _named(t, r))
        return dict(sorted(found.items()))

    def code_of(self, config: Mapping[str, Any], program: str) -> list[Any]:
        """What identifies the code that the components of a configuration run."""
        modules = {program, *targets_of(config)}
        found: dict[str, str] = {}
        for package in {module.partition(".")[0] for module in modules} - OWN_PACKAGES:
            found |= self._remembered(f"code:{package}", lambda name=package: code_files(name))
        return [self._sources.digest(sorted(modules)), dict(sorted(found.items()))]

    def _dataset(self, node: Mapping[str, Any]) -> dict[str, str]:
        return self._remembered(json.dumps(node, sort_keys=True), lambda: _dataset_files(node))

    def _remembered(self, key: str, look: Any) -> dict[str, str]:
        if key not in self._known:
            try:
                self._known[key] = {str(file): sha256_of(file) for file in look()}
            except (OSError, ValueError, RuntimeError):  # too long for a path, not allowed, of a user without a home
                self._known[key] = {}
        return self._known[key]


def _dataset_files(node: Mapping[str, Any]) -> list[Path]:
    try:
        loader: DatasetLoader = component({"dataset": node}, "dataset")
    except InputError:
        return []
    return loader.files()


def _named(text: str, is_read: bool) -> Iterator[Path]:
    path = Path(text).expanduser()
    if text and path.is_dir() and (is_read or len(path.parts) > 1):
        yield from sorted(file for file in path.rglob("*") if file.is_file())
    elif path.is_file():
        yield path
    else:
        return
    if manifest := manifest_of(path):
        yield manifest


def targets_of(config: Mapping[str, Any]) -> set[str]:
    """The classes and functions that a configuration names, but for those that say where and how a run happens."""
    return set(targets({name: node for name, node in config.items() if name not in WHERE_NOT_WHAT}))


def code_files(package: str) -> Iterator[Path]:
    """The Python files of a package."""
    spec = find_spec(package)
    if spec is None:
        return
    if spec.submodule_search_locations is None:
        yield Path(str(spec.origin))
    for folder in spec.submodule_search_locations or ():
        yield from sorted(Path(folder).rglob("*.py"))


def _texts(node: Any, is_read: bool = False) -> Iterator[tuple[str, bool]]:
    """Every text of an option that may name a file, and whether its component declares that it reads what is there."""
    if isinstance(node, str):
        yield node, is_read
    elif isinstance(node, Mapping):
        target = node.get("_target_")
        reads, keeps = _declared(str(target)) if target else FileArguments()
        for name, value in node.items():
            if name not in keeps and not str(name).startswith("_"):
                yield from _texts(value, name in reads or (is_read and not target))
    elif isinstance(node, (list, tuple)):
        for value in node:
            yield from _texts(value, is_read)


@lru_cache(maxsize=256)
def _declared(target: str) -> FileArguments:
    try:
        found = get_object(target)
    except Exception:
        found = Component
    return files_of(found)
