"""Makes a study of finished runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments.compare.run_folder import TABLE, FinishedRun, line_of, reading
from experiments.config.options import WHERE_NOT_WHAT
from experiments.evaluate.record import UNITS, told
from experiments.evaluate.significance import PERMUTATIONS
from experiments.publish.described import git_sha, policy_title
from experiments.report.study import FINAL, Cell, Study, StudyCollection, StudyPolicy, column_of
from ragtune.core.errors import ConfigError
from ragtune.core.units import DOCS
from ragtune.core.units import UNITS as ALL
from ragtune.data.join import joined


def study_of_runs(runs: Sequence[FinishedRun], command: str) -> Study:
    """Make a study of runs, the first the reference."""
    require_comparable(runs)
    first = runs[0]
    bootstrap = first.config["bootstrap"]
    measures = [name for name in first.summary.measures if all(name in run.summary.measures for run in runs)]
    if not measures:
        raise ConfigError("the runs share no measure: run them with the same measures=[...]")
    policies = _policies(runs)
    return Study(
        name=f"{first.summary.dataset}: {len(runs)} runs",
        command=command,
        git_sha=git_sha(),
        collections=[_collection(runs, measures)],
        policies=policies,
        reference=policies[0].name,
        columns=[FINAL],
        measures=measures,
        is_grid=False,
        target_label=f"what {policies[0].label} ends with",
        resamples=bootstrap["resamples"],
        permutations=PERMUTATIONS,
        level=bootstrap["level"],
        seed=first.config["seed"],
        notes=_notes(runs, policies, measures[0]),
    )


def reservations(runs: Sequence[FinishedRun]) -> list[str]:
    """Warnings about the runs: failures, inputs that do not cover all queries, and files that have changed."""
    failed = [run for run in runs if run.summary.has_failed]
    found = [f"run {run.name} has failed, first error: {run.summary.failures.first_error}" for run in failed]
    found += [
        f"run {run.name}: {join.missing} {join.gap}" for run in runs for join in run.summary.joins if join.missing
    ]
    first = runs[0]
    for run in runs[1:]:
        if first.config.get("passages") != run.config.get("passages"):
            found.append(f"runs {first.name} and {run.name} read other passages, which count as documents: see tokens")
        both = first.summary.inputs.keys() & run.summary.inputs.keys()
        changed = sorted(file for file in both if first.summary.inputs[file] != run.summary.inputs[file])
        found += [f"{file} has changed between the runs {first.name} and {run.name}" for file in changed]
    return found


def require_comparable(runs: Sequence[FinishedRun]) -> None:
    """Refuse runs of different collections or judged queries."""
    if len(runs) < 2:
        raise ConfigError("name at least two runs: the first is what the others are compared with")
    first = runs[0]
    for run in runs[1:]:
        for what in ("dataset", "corpus_digest"):
            ours, theirs = getattr(first.summary, what), getattr(run.summary, what)
            if ours != theirs:
                raise ConfigError(
                    f"runs of different collections cannot be compared: {what} of {first.name} is {ours!r}, "
                    f"of {run.name} {theirs!r}"
                )
        for one, other in ((first, run), (run, first)):
            both = joined("judged queries", set(one.queries.index), f"run {other.name}", set(other.queries.index))
            if both.missing:
                raise ConfigError(
                    f"{first.name} and {run.name} judge different queries: compare runs of the same queries; of run "
                    f"{one.name}, {both.missing} {both.gap}"
                )


def _policies(runs: Sequence[FinishedRun]) -> list[StudyPolicy]:
    labels = [_label(run) for run in runs]
    found = []
    for run, label in zip(runs, labels, strict=True):
        unique = f"{label} ({run.name})" if labels.count(label) > 1 else label
        kind = "ceiling" if "oracle" in run.summary.tags["estimator"] else "ours"
        found.append(StudyPolicy(run.name, unique, "baseline" if _choices(run) == _choices(runs[0]) else kind))
    return found


def _choices(run: FinishedRun) -> dict[str, Any]:
    """What decides the results of a run, its budget left aside: runs of one policy have the same."""
    return {key: value for key, value in run.config.items() if key != "budget" and key not in WHERE_NOT_WHAT}


def _label(run: FinishedRun) -> str:
    limits = {unit: run.config["budget"].get(unit.limit) for unit in ALL}
    limited = [f"{column_of(limit)} {unit.noun}" for unit, limit in limits.items() if limit is not None]
    return ", ".join([policy_title(run.summary), *(limited or ["no limit"])])


def _notes(runs: Sequence[FinishedRun], policies: Sequence[StudyPolicy], measure: str) -> list[str]:
    found = reservations(runs)
    if (first_stage := runs[0].summary.first_stage.get(measure)) is not None:
        found.append(f"The first stage alone: {measure} {first_stage:.3f}.")
    for run, policy in zip(runs, policies, strict=True):
        chosen = " ".join(run.summary.overrides) or "(defaults)"
        found.append(f"{policy.label}: run `{run.name}`, `{chosen}`, code `{run.summary.tags['git_sha']}`")
    return found


def _collection(runs: Sequence[FinishedRun], measures: Sequence[str]) -> StudyCollection:
    queries = list(runs[0].queries.index)
    cells = {(run.name, FINAL): _cell(run, queries, measures) for run in runs}
    reference = cells[runs[0].name, FINAL]
    return StudyCollection(
        name=runs[0].summary.dataset,
        queries=queries,
        cells=cells,
        curves={run.name: line_of(run, measures) for run in runs},
        target=reference.values.mean(axis=0),
        target_spent=float(reference.in_unit(DOCS).mean()),
        start=line_of(runs[0], measures).mean[0],
    )


def _cell(run: FinishedRun, queries: Sequence[str], measures: Sequence[str]) -> Cell:
    table = run.queries.loc[list(queries)]
    charged = [f"charged_{unit}" for unit in UNITS]
    with reading(run.folder / TABLE):
        _ = table[[charged[i] for i in told(np.zeros(len(UNITS)))]]
        return Cell(
            values=table[list(measures)].to_numpy(dtype=float),
            charged=table.reindex(columns=charged, fill_value=0.0).to_numpy(dtype=float),
            stops=table["stop_reason"].tolist(),
        )
