"""Checks the golden decisions of a run's components, and the canonical blocks if it uses any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal

from experiments.config.sources import Sources
from experiments.conformance.golden import COUNTERPARTS, code_of, component_of, differences_of
from experiments.conformance.outcomes import SPECS, differences_once
from experiments.evaluate.summary import Conformance, Outcome
from experiments.replay.inputs import targets_of

SHOWN = 5
"""Number of differences that an outcome names."""

_BLOCKS = "ragtune.canonical."
_SUITE = ("ragtune.canonical.conformance.suite", "experiments.conformance.canonical")


def conformance_of(config: Mapping[str, Any]) -> Conformance:
    """Check the components of a configuration, or repeat what an earlier check of the same code has found.

    Args:
        config: plain data.
    """
    try:
        return _checked(config)
    except OSError as error:  # someone changes the checkout meanwhile: that costs no result
        return Conformance(**dict(outcome([f"the code cannot be read: {error}"], "decisions")))


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
        **dict(outcome(found, "decisions", is_checked=bool(checked))),
        checked=checked,
        without=without,
        canonical=outcome(check_canonical(), "canonical") if has_blocks else None,
    )


def outcome(differences: Sequence[str], suite: str, *, is_checked: bool = True) -> Outcome:
    """The outcome of a check that found these differences."""
    found: Literal["passed", "failed"] = "failed" if differences else "passed"
    return Outcome(
        outcome=found if is_checked else "no golden decisions", spec=SPECS[suite], differences=list(differences[:SHOWN])
    )


@cache
def _imports_blocks(targets: frozenset[str]) -> bool:
    """Whether these classes import the canonical blocks. The jobs of a sweep have most classes in common."""
    return any(name.startswith(_BLOCKS) for name in _sources().files(targets))


@cache
def check_decisions(component: str) -> list[str]:
    """Where the decisions of a component differ from the golden ones, one line each.

    Args:
        component: ``group/name``.
    """
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
    from experiments.conformance.canonical import open_target
    from ragtune.canonical.conformance.suite import run_suite

    with open_target("memory") as target:
        return run_suite(target, lambda done, total: None, SPECS["canonical"]).lines
