"""The identity of a run: the options that decide its results, and the content of every file that they name."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from experiments.config.compose import results_key
from experiments.config.overrides import WHERE_NOT_WHAT
from experiments.config.targets import OWN_PACKAGES, targets
from experiments.datasets.dataset import DatasetLoader
from experiments.replay.component import component
from ragtune.core.errors import ConfigError, InputError
from ragtune.data.filedigest import file_digests
from ragtune.rerankers.score_table import manifest_of

NO_INPUT = ("_target_", "cache_dir", "folder")
"""Options whose values name no input, but code or folders that a run itself fills."""

FOLDER_OPTIONS = ("path", "model", "graph", "scores", "paths")
"""Options in which a single word may name a folder; in others (``split: test``) it is the name of a choice."""


def identity(config: Mapping[str, Any]) -> dict[str, Any]:
    """What tells a run from every other, as plain data for its journal and its summary.

    Returns:
        ``settings``, a hash of the options that decide results; ``inputs``, the hash of each input file by path; and
        ``fingerprint``, a hash of both.
    """
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
    """Refuse to resume what another configuration began, or what was begun with other data.

    Args:
        ours: the :func:`identity` of the run that would resume.
        theirs: the identity of the run that began, as a file says it.
        what: the beginning of the error message, e.g. ``'out' holds the results of``.
        because: why it would be resumed.
        otherwise: what can be done instead.

    Raises:
        ConfigError: naming the first file that is not the same, where only files are not.
    """
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

    def of(self, config: Mapping[str, Any]) -> dict[str, str]:
        """SHA-256 of every input file by path, sorted.

        These are the files that the dataset reads, and those that other options name: a file or every file of a folder,
        and its manifest. Files that cannot be opened are left out, since the run itself will refuse them.
        """
        groups = {name: node for name, node in config.items() if name not in ("dataset", *WHERE_NOT_WHAT)}
        found = self._dataset(config["dataset"]) if "dataset" in config else {}
        for key, text in set(_texts(groups)):
            found = found | self._remembered(f"{key in FOLDER_OPTIONS}:{text}", lambda k=key, t=text: _named(k, t))
        return dict(sorted(found.items()))

    def code_of(self, config: Mapping[str, Any]) -> dict[str, str]:
        """SHA-256 of every Python file of the packages from elsewhere that the components' classes are in, sorted."""
        packages = {target.partition(".")[0] for target in targets(config)} - OWN_PACKAGES
        found: dict[str, str] = {}
        for package in packages:
            found |= self._remembered(f"code:{package}", lambda name=package: _code(name))
        return dict(sorted(found.items()))

    def _dataset(self, node: Mapping[str, Any]) -> dict[str, str]:
        return self._remembered(json.dumps(node, sort_keys=True), lambda: _dataset_files(node))

    def _remembered(self, key: str, look: Any) -> dict[str, str]:
        if key not in self._known:
            try:
                files = list(look())
                self._known[key] = dict(zip(map(str, files), file_digests(files), strict=True))
            except (OSError, ValueError, RuntimeError):  # too long for a path, not allowed, of a user without a home
                self._known[key] = {}
        return self._known[key]


def _dataset_files(node: Mapping[str, Any]) -> list[Path]:
    try:
        loader: DatasetLoader = component({"dataset": node}, "dataset")
    except InputError:
        return []
    return loader.files()


def _named(key: str, text: str) -> Iterator[Path]:
    path = Path(text).expanduser()
    if text and path.is_dir() and (key in FOLDER_OPTIONS or len(path.parts) > 1):
        yield from sorted(file for file in path.rglob("*") if file.is_file())
    elif path.is_file():
        yield path
    else:
        return
    if manifest := manifest_of(path):
        yield manifest


def _code(package: str) -> Iterator[Path]:
    spec = find_spec(package)
    if spec is None:
        return
    if spec.submodule_search_locations is None:
        yield Path(str(spec.origin))
    for folder in spec.submodule_search_locations or ():
        yield from sorted(Path(folder).rglob("*.py"))


def _texts(node: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Every text with the option that it belongs to."""
    if isinstance(node, str):
        yield key, node
    elif isinstance(node, Mapping):
        for name, value in node.items():
            if name not in NO_INPUT:
                yield from _texts(value, name)
    elif isinstance(node, (list, tuple)):
        for value in node:
            yield from _texts(value, key)
