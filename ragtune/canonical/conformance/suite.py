"""Runs the conformance suite against a target."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ragtune.canonical.conformance import SPEC
from ragtune.canonical.conformance.comparing import differences
from ragtune.canonical.conformance.fixtures import Observations, load_fixtures, load_golden
from ragtune.canonical.conformance.observing import SKIPPED, Progress, observe
from ragtune.canonical.conformance.targets import Target

RULES = {
    "normalize": "D2",
    "chunk": "D3",
    "embed": "D4",
    "store": "D5",
    "vector": "D6",
    "lexical": "D6",
    "hybrid": "D8",
    "filter": "D7",
    "fuse": "D8",
    "rerank": "D9",
    "compress": "D10",
    "package": "D11",
    "language": "D6",
    "large": "D6",
}
"""Rule of docs/rules.md by the first part of a case's name."""


@dataclass(frozen=True)
class Report:
    """The outcome of the suite for one target.

    Attributes:
        target: name of the target.
        observed: answers of the target by case.
        failures: differences by case, of the cases that have any.
        skipped: cases about optional blocks that the target does not offer.
        spec: version of the specification.
    """

    target: str
    observed: Observations = field(repr=False)
    failures: dict[str, list[str]]
    skipped: list[str]
    spec: str = SPEC

    @property
    def outcome(self) -> Literal["passed", "failed"]:
        """Whether the target conforms."""
        return "failed" if self.failures else "passed"

    @property
    def lines(self) -> list[str]:
        """The differences with the rules of their cases, one line each."""
        return [
            f"{name} (rule {RULES[name.partition('/')[0]]}): {difference}"
            for name, found in self.failures.items()
            for difference in found
        ]

    @property
    def summary(self) -> str:
        """The outcome in one line, with the number of cases."""
        skipped = f", {len(self.skipped)} skipped ({', '.join(self.skipped)})" if self.skipped else ""
        cases = f"{len(self.observed)} cases, {len(self.failures)} failed{skipped}"
        return f"{self.target}: conformance with ragd {self.spec}: {self.outcome} ({cases})"


def run_suite(target: Target, progress: Progress = lambda done, total: None, spec: str = SPEC) -> Report:
    """Compare the target's answers to all cases with the golden ones.

    Args:
        target: the target; it stays open.
        progress: function that is called as cases are done.
        spec: version of the specification, one of :data:`ragtune.canonical.conformance.SPECS`.
    """
    observed = observe(target, load_fixtures(spec), progress)
    found = differences(observed, load_golden(spec))
    return Report(
        target=target.name,
        observed=observed,
        failures={name: texts for name, texts in found.items() if texts},
        spec=spec,
        skipped=[name for name, observation in observed.items() if observation == SKIPPED],
    )
