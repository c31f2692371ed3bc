"""Checks the golden decisions of a run's components, and the canonical blocks if any, once for the same code."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Any, Literal

from experiments.config.sources import Sources
from experiments.conformance.golden import COUNTERPARTS, SPECS, code_of, component_of, differences_of
from experiments.evaluate.summary import Conformance, Outcome
from experiments.replay.inputs import targets_of
from ragtune.core.errors import ConfigError
from ragtune.data.caches.diskcache import AUTO, resolve_cache_dir
from ragtune.data.caches.sqlitecache import SqliteCache

_STARTED_NS = time.time_ns()


def differences_once(
    name: str, sources: Sources, modules: Iterable[str], data: Sequence[Path], check: Callable[[], Sequence[str]]
) -> list[str]:
    """What a check of these modules and files finds, from the cache if the same code was checked before.

    A process that began before a file changed may have loaded the earlier text, so it neither reads nor writes the
    cache. A cache that cannot be used costs time only.
    """
    files = [*sources.files(modules).values(), *data]
    if any(file.stat().st_mtime_ns > _STARTED_NS for file in files):
        return list(check())
    key = SqliteCache.key(name, sources.digest(modules, data))
    folder = resolve_cache_dir(AUTO)
    assert folder is not None  # noqa: S101 -- AUTO always names one; for the type checker
    with closing(SqliteCache[str](folder / "conformance.sqlite", "outcome", "differences TEXT")) as cache:
        with suppress(ConfigError, sqlite3.OperationalError):  # to put warns about it
            if known := cache.get([key]):
                return [str(line) for line in json.loads(known[key])]
        found = list(check())
        cache.put({key: json.dumps(found)})
    return found


_SHOWN = 5  # differences that an outcome names
_BLOCKS = "ragtune.canonical."
_SUITE = ("ragtune.canonical.conformance.suite", "experiments.conformance.canonical")


def conformance_of(config: Mapping[str, Any]) -> Conformance:
    """Check the components of a configuration, or repeat what an earlier check of the same code has found."""
    try:
        return _checked(config)
    except OSError as error:  # someone changes the checkout meanwhile: that costs no result
        return Conformance(**dict(_outcome([f"the code cannot be read: {error}"], "decisions")))


def _checked(config: Mapping[str, Any]) -> Conformance:
    checked, without, found = [], [], []
    for group in COUNTERPARTS:
        target, parts = str(config[group]["_target_"]), targets_of({group: config[group]})
        if (component := component_of(group, target)) is None:
            without.append(target)
        else:
            checked.append(component)
            found += check_decisions(component)
            without += sorted(parts.difference(code_of(component)[0]))
    has_blocks = _imports_blocks(frozenset(targets_of(config)))
    return Conformance(
        **dict(_outcome(found, "decisions", is_checked=bool(checked))),
        checked=checked,
        without=without,
        canonical=_outcome(check_canonical(), "canonical") if has_blocks else None,
    )


def _outcome(differences: Sequence[str], suite: str, *, is_checked: bool = True) -> Outcome:
    found: Literal["passed", "failed"] = "failed" if differences else "passed"
    return Outcome(
        outcome=found if is_checked else "no golden decisions",
        spec=SPECS[suite],
        differences=list(differences[:_SHOWN]),
    )


@cache
def _imports_blocks(targets: frozenset[str]) -> bool:
    """Whether these classes import the canonical blocks. The jobs of a sweep have most classes in common."""
    return any(name.startswith(_BLOCKS) for name in _sources().files(targets))


@cache
def check_decisions(component: str) -> list[str]:
    """Where the decisions of a component (``group/name``) differ from the golden ones, one line each."""
    return differences_once(component, _sources(), *code_of(component), lambda: differences_of(component))


@cache
def check_canonical() -> list[str]:
    """Where the answers of the canonical blocks differ from the golden ones, one line each."""
    home = _sources().files(_SUITE)[_SUITE[0]].parent
    return differences_once("canonical", _sources(), _SUITE, sorted(home.glob("v*/*.json")), _ask_memory)


@cache
def _sources() -> Sources:
    """The code of this process, which is read once: what changes later is not what runs here."""
    return Sources()


def _ask_memory() -> Sequence[str]:
    from experiments.conformance.canonical import LibraryTarget
    from ragtune.canonical.conformance.suite import run_suite

    return run_suite(LibraryTarget()).lines
