"""Whether a finished run may replace another: it must lose at most so much, and cost no more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from pathlib import Path
from xml.etree import ElementTree

from scipy.special import ndtri

from experiments.compare.runs import FinishedRun, require_comparable
from experiments.evaluate.significance import PERMUTATIONS, TIE, Bootstrap, randomization_test
from experiments.report.tables import p_text
from ragtune.core.errors import ConfigError
from ragtune.core.plain import count_of
from ragtune.core.units import Unit

FINE, WORSE, UNDECIDED = 0, 1, 2
"""Exit codes of the gate."""

WORDS = {FINE: "fine", WORSE: "worse", UNDECIDED: "cannot tell"}
_POWER = 0.8  # probability with which a true difference is found, in the statement of power


@dataclass(frozen=True)
class GateFinding:
    """A verdict of the gate on quality or cost, and the sentence that gives the reason."""

    what: str
    code: int
    why: str


def findings(
    base: FinishedRun, candidate: FinishedRun, measure: str, max_loss: float, unit: Unit, max_rise: float
) -> list[GateFinding]:
    """Judge a candidate's quality and cost against the base's; ``max_rise`` is a share of the base's mean cost."""
    require_comparable([base, candidate])
    for run in (base, candidate):
        if measure not in run.summary.measures:
            known = ", ".join(run.summary.measures)
            raise ConfigError(f"--measure {measure}: run {run.name} has {known}; the option measures=[...] adds others")
    return [_quality(base, candidate, measure, max_loss), _cost(base, candidate, unit, max_rise)]


def _quality(base: FinishedRun, candidate: FinishedRun, measure: str, max_loss: float) -> GateFinding:
    theirs = candidate.queries.loc[base.queries.index, measure].to_numpy(dtype=float)
    differences = theirs - base.queries[measure].to_numpy(dtype=float)
    config, seed = base.config["bootstrap"], base.config["seed"]
    column = differences[:, None]
    ends = Bootstrap(config["resamples"], config["level"], seed).interval(column)
    low, high = (float(end[0]) for end in ends)
    p = float(randomization_test(column, permutations=PERMUTATIONS, seed=seed)[0])
    n, spread = len(differences), float(differences.std(ddof=1)) if len(differences) > 1 else 0.0
    code = FINE if low >= -max_loss - TIE else WORSE if high < -max_loss else UNDECIDED
    why = (
        f"{measure} {differences.mean():+.4f} [{low:+.4f}, {high:+.4f}] on {n} queries, p {p_text(p)}; "
        f"allowed is a loss of {max_loss:g}"
    )
    return GateFinding(measure, code, f"{why}. {_power(spread, n, max_loss, config['level'])}")


def _power(spread: float, n: int, max_loss: float, level: float) -> str:
    """What these queries could have shown, by the normal approximation, and how many it takes to clear equal runs."""
    reach = float(ndtri((1.0 + level) / 2.0) + ndtri(_POWER)) * spread
    found = f"With these queries a loss of {max_loss + reach / sqrt(n):.4f} is found in {_POWER:.0%} of cases"
    if not max_loss or not spread:
        return f"{found}."
    return f"{found}; to clear an equal run takes about {count_of(ceil((reach / max_loss) ** 2), 'queries')}."


def _cost(base: FinishedRun, candidate: FinishedRun, unit: Unit, max_rise: float) -> GateFinding:
    means = []
    for run in (base, candidate):
        charged = run.queries.reindex(columns=["charged_docs", f"charged_{unit.name}"], fill_value=0.0).mean()
        docs, mean = map(float, charged)
        if docs and not mean:
            raise ConfigError(f"--unit {unit.short}: run {run.name} was charged no {unit.noun}; take another unit")
        means.append(mean)
    before, after = means
    code = FINE if after <= before * (1.0 + max_rise) + TIE else WORSE
    why = f"{unit.noun} a query {before:,.4g} -> {after:,.4g}; allowed is a rise of {100 * max_rise:g}%."
    if code == WORSE and before:
        rise = f"rise by {after / before - 1.0:.2%}, allowed is {100 * max_rise:g}%"
        why = f"{unit.noun} a query {rise}: {before:,.4g} -> {after:,.4g}."
    return GateFinding(unit.noun, code, why)


def verdict(found: Sequence[GateFinding]) -> int:
    """The exit code of all findings: worse if one is, else undecided if one is."""
    codes = {finding.code for finding in found}
    return next(code for code in (WORSE, UNDECIDED, FINE) if code in codes)


def write_junit(found: Sequence[GateFinding], name: str, file: Path) -> None:
    """Write the findings as JUnit XML: a worse one is a failure, an undecided one an error."""
    counts = {"failures": WORSE, "errors": UNDECIDED}
    suite = ElementTree.Element("testsuite", name="ragtune gate", tests=str(len(found)))
    for attribute, code in counts.items():
        suite.set(attribute, str(sum(finding.code == code for finding in found)))
    for finding in found:
        case = ElementTree.SubElement(suite, "testcase", classname=name, name=finding.what)
        if finding.code != FINE:
            tag = "failure" if finding.code == WORSE else "error"
            ElementTree.SubElement(case, tag, message=f"{WORDS[finding.code]}: {finding.why}")
    ElementTree.ElementTree(suite).write(file, encoding="utf-8", xml_declaration=True)
