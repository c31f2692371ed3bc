"""Digests of code: of modules and of everything of this project that they import."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from importlib.util import find_spec, resolve_name
from os.path import isfile
from pathlib import Path

from experiments.config.paths import PROJECT_ROOT

OWN_PACKAGES = frozenset({"ragtune", "experiments"})

NUMERICAL = ("numpy", "scipy", "scikit-learn", "bm25s", "PyStemmer")
"""Libraries whose version may change a figure."""

_TYPE_CHECKING = re.compile(r"^if TYPE_CHECKING:\n(?:[ \t]+.*\n|\n)*", re.MULTILINE)
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n(]*)|import[ \t]+([^\n]*))", re.MULTILINE
)

_TABLE = re.compile(r'"(\w+)": "([\w.]+)"')
"""Entries of the table from which a package with ``__getattr__`` imports names on first use."""


@dataclass(frozen=True)
class _Module:
    """A module's file, the digest of its text, what it imports, and the modules of names that it loads on first use."""

    file: Path
    digest: str
    imports: Sequence[str]
    on_first_use: Mapping[str, str]


class Sources:
    """The text of modules, read once. Imports are found in the text, within functions too; nothing is imported."""

    def __init__(self, root: Path = PROJECT_ROOT) -> None:
        self._root = root
        self._read: dict[str, _Module | None] = {}

    def digest(self, modules: Iterable[str], data: Iterable[Path] = ()) -> str:
        """SHA-256 of these modules, of all that they import, and of the numerical libraries' versions."""
        code = sorted((name, module.digest) for name, module in self._imported_by(modules).items())
        more = [(file.name, sha256(file.read_bytes()).hexdigest()) for file in data]
        return sha256(json.dumps([_versions(), code, more]).encode()).hexdigest()

    def files(self, modules: Iterable[str]) -> dict[str, Path]:
        """The files of modules and of all that they import from this project and their packages, by dotted name."""
        return {name: module.file for name, module in sorted(self._imported_by(modules).items())}

    def _imported_by(self, modules: Iterable[str]) -> dict[str, _Module]:
        todo = list(modules)
        packages = OWN_PACKAGES | {module.partition(".")[0] for module in todo}
        found: dict[str, _Module] = {}
        seen: set[str] = set()
        while todo:
            name = todo.pop()
            if name in seen or name.partition(".")[0] not in packages:
                continue
            seen.add(name)
            parent = name.rpartition(".")[0]
            if parent:
                todo.append(parent)
            if (module := self._module(name)) is not None:
                found[name] = module
                todo += module.imports
            elif (home := self._module(parent) if parent else None) is not None:
                target = home.on_first_use.get(name.removeprefix(f"{parent}."))
                todo += [target, f"{parent}.{target}"] if target else []
        return found

    def _module(self, name: str) -> _Module | None:
        if name not in self._read:
            self._read[name] = self._look(name)
        return self._read[name]

    def _look(self, name: str) -> _Module | None:
        parent, _, last = name.rpartition(".")
        if not parent:
            homes = [str(self._root / name)] if name in OWN_PACKAGES else _homes(name)
        elif (package := self._module(parent)) is not None and package.file.name == "__init__.py":
            homes = [str(package.file)[: -len("__init__.py")] + last]
        else:
            return None
        files = (file for home in homes for file in (f"{home}.py", f"{home}/__init__.py"))
        file = next(filter(isfile, files), None)
        return None if file is None else _read(Path(file), name)


def _homes(package: str) -> list[str]:
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        return []
    if spec is None:
        return []
    return list(spec.submodule_search_locations or [str(spec.origin).removesuffix(".py")])


def _read(file: Path, name: str) -> _Module:
    data = file.read_bytes()
    text = data.decode(errors="replace")
    is_package = file.name == "__init__.py"
    package = name if is_package else name.rpartition(".")[0]
    on_first_use = dict(_TABLE.findall(text)) if is_package and "def __getattr__" in text else {}
    return _Module(file, sha256(data).hexdigest(), list(_imports(text, package)), on_first_use)


def _imports(text: str, package: str) -> Iterator[str]:
    """Dotted names that a module's text imports; of ``from a import b`` both ``a`` and ``a.b``."""
    for origin, names, modules in _IMPORT.findall(_TYPE_CHECKING.sub("", text)):
        yield from _names(modules)
        if origin:
            home = resolve_name(origin, package)
            yield home
            yield from (f"{home}.{name}" for name in _names(names))


def _names(listed: str) -> Iterator[str]:
    for line in listed.strip("()").split("\n"):
        for part in line.partition("#")[0].split(","):
            if words := part.split():
                yield words[0]


@cache
def _versions() -> Mapping[str, str]:
    return {name: version(name) for name in NUMERICAL}
