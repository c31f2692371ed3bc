"""Runs the conformance suite against a target, and compares its answers with the golden ones."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ragtune.canonical.conformance import SPEC, Observations, load_fixtures, load_golden
from ragtune.canonical.conformance.observing import SKIPPED, observe
from ragtune.canonical.conformance.targets import Target


@dataclass(frozen=True)
class Report:
    """The outcome of the suite for one target: its answers, and the differences of the cases that have any."""

    target: str
    observed: Observations = field(repr=False)
    failures: dict[str, list[str]]
    skipped: list[str]

    @property
    def lines(self) -> list[str]:
        """The differences by case, one line each."""
        return [f"{name}: {difference}" for name, found in self.failures.items() for difference in found]

    @property
    def summary(self) -> str:
        """The outcome in one line, with the number of cases."""
        skipped = f", {len(self.skipped)} skipped ({', '.join(self.skipped)})" if self.skipped else ""
        cases = f"{len(self.observed)} cases, {len(self.failures)} failed{skipped}"
        outcome = "failed" if self.failures else "passed"
        return f"{self.target}: conformance with ragd {SPEC}: {outcome} ({cases})"


def run_suite(target: Target) -> Report:
    """Compare the target's answers to all cases with the golden ones."""
    observed = observe(target, load_fixtures())
    found = differences(observed, load_golden())
    return Report(
        target=target.name,
        observed=observed,
        failures={name: texts for name, texts in found.items() if texts},
        skipped=[name for name, observation in observed.items() if observation == SKIPPED],
    )


SCORE_TOLERANCE = 2e-6
"""How far a score may be from the golden one: scores are rounded to 6 decimals, and a rounding may go either way."""

_SHOWN = 200


def differences(observed: Observations, golden: Observations) -> dict[str, list[str]]:
    """Differences by golden case, one line each; scores may differ by :data:`SCORE_TOLERANCE`, lists are in order."""
    found = {name: _in_case(observed.get(name), expected) for name, expected in golden.items()}
    return found | {name: ["not pinned"] for name in observed if name not in golden}


def _in_case(observed: Any, golden: Any) -> list[str]:
    if observed == SKIPPED:
        return []
    if isinstance(observed, dict) and "error" in observed:
        return [observed["error"]]
    return [*_order(_candidates(observed)), *_walk("", observed, golden)]


def _candidates(observation: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = observation.get("candidates", []) if isinstance(observation, dict) else []
    return found


def _order(hits: list[dict[str, Any]]) -> Iterator[str]:
    keys = [(-hit["score"], hit["doc_id"], hit["chunk_index"]) for hit in hits]
    if keys != sorted(keys):
        yield "the candidates are not in order of score, doc_id, chunk_index"


def _walk(path: str, observed: Any, golden: Any, is_score: bool = False) -> Iterator[str]:
    if isinstance(golden, dict) and isinstance(observed, dict):
        for key in sorted({*golden, *observed}):
            here = f"{path}.{key}".lstrip(".")
            if key not in golden or key not in observed:
                yield f"{here}: {'not pinned' if key in observed else 'missing'}"
            else:
                yield from _walk(here, observed[key], golden[key], is_score or key in ("score", "sources"))
    elif isinstance(golden, list) and isinstance(observed, list):
        if len(golden) != len(observed):
            yield f"{path}: {len(observed)} items, pinned are {len(golden)}"
        for place, pair in enumerate(zip(observed, golden, strict=False)):
            yield from _walk(f"{path}[{place}]", *pair, is_score)
    elif not _same(observed, golden, is_score):
        yield f"{path or 'it'} is {_show(observed)}, pinned is {_show(golden)}"


def _same(observed: Any, golden: Any, is_score: bool) -> bool:
    if isinstance(observed, bool) != isinstance(golden, bool):
        return False
    if is_score and isinstance(observed, int | float) and isinstance(golden, int | float):
        return math.isclose(observed, golden, rel_tol=0.0, abs_tol=SCORE_TOLERANCE)
    return bool(observed == golden)


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
