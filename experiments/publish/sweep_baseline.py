"""What the jobs of a sweep are tested against: fixed depth, or one of the jobs, named by its choices."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.config.overrides import choices_of, spelled_out
from experiments.evaluate.baselines import FIXED_DEPTH
from experiments.evaluate.significance import PairedDifferences, paired_differences
from experiments.evaluate.summary import Summary
from ragtune.core.errors import ConfigError

JOBS_NAMED = 8
"""An error lists the choices of this many jobs."""


def references(baseline: str, jobs: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The job that each job of a sweep is compared with, of those that have one.

    Where several jobs have the choices that name the baseline, each other job is compared with that of them whose
    other choices are its own: ``estimator=gar`` in a sweep over budgets too is GAR under the same budget.

    Args:
        baseline: the number of a job, or choices as on the command line, separated by commas or blanks.
        jobs: overrides of each job, by its number.

    Raises:
        ConfigError: if no job is the baseline.
    """
    chosen = {job: choices_of(overrides) for job, overrides in jobs.items()}
    wanted, alike = ({}, [baseline]) if baseline in jobs else _named(re.split(r"[,\s]+", baseline.strip()), chosen)
    if not alike:
        raise ConfigError(f"sweep.baseline={baseline!r}: no job of this sweep is that; allowed are {_allowed(chosen)}")
    if len(alike) == 1:
        return {job: alike[0] for job in jobs if job != alike[0]}
    twins = {_others(chosen[job], wanted): job for job in reversed(alike)}
    others = {job: _others(its, wanted) for job, its in chosen.items() if job not in alike}
    return {job: twins[rest] for job, rest in others.items() if rest in twins}


def _named(words: Sequence[str], chosen: Mapping[str, Mapping[str, str]]) -> tuple[dict[str, str], list[str]]:
    """The choices that name a baseline, and the jobs that have them.

    A budget that is an amount is one choice in a sweep over names and amounts, and the limit of a unit in another one.
    """
    with_unit = [f"{word}docs" if re.fullmatch(r"budget=\d+", word) else word for word in words]
    for form in (with_unit, spelled_out(words)):
        wanted = choices_of(form)
        if alike := [job for job, its in chosen.items() if wanted.items() <= its.items()]:
            return wanted, alike
    return {}, []


def check_baseline(baseline: str, jobs: Mapping[str, Sequence[str]]) -> None:
    """Refuse, before a sweep begins, a baseline that leaves one of its jobs without a job to be compared with.

    Raises:
        ConfigError: naming the baseline, and what is allowed.
    """
    if baseline == FIXED_DEPTH or len(jobs) < 2:
        return
    compared = references(baseline, jobs)
    alone = [job for job in jobs if job not in compared and job not in compared.values()]
    if alone:
        raise ConfigError(
            f"sweep.baseline={baseline!r}: several jobs are that, and none of them has the other choices of job "
            f"{alone[0]} ({' '.join(jobs[alone[0]])}); name one of them, by its number or by more of its choices"
        )


def differences(
    folder: Path, summaries: Mapping[str, Summary], compared: Mapping[str, str], bootstrap: Mapping[str, Any]
) -> dict[str, PairedDifferences]:
    """The difference of each job from the job that it is compared with, in the headline, on their judged queries.

    Args:
        folder: the sweep's, which holds the folders of the jobs.
        summaries: of the jobs.
        compared: what :func:`references` found.
        bootstrap: ``resamples``, ``level`` and ``seed`` of the intervals and tests.

    Returns:
        Arrays of shape (1,), by job; without jobs whose baseline has no summary, or another collection, or other judged
        queries.
    """
    found = {}
    for job, reference in compared.items():
        if reference not in summaries:
            continue
        ours, theirs = summaries[job], summaries[reference]
        headline = next(iter(ours.measures))
        if ours.corpus_digest != theirs.corpus_digest or headline not in theirs.measures:
            continue
        values, others = (_values(folder / name, headline) for name in (job, reference))
        if len(values) and values.index.equals(others.index):
            found[job] = paired_differences((values - others).to_numpy()[:, None], **bootstrap)
    return found


def _values(folder: Path, measure: str) -> Any:
    """The judged queries' values, sorted by query."""
    import pandas as pd

    table = pd.read_parquet(folder / "per_query.parquet", columns=["query_id", "judged", measure])
    return table[table["judged"].astype(bool)].set_index("query_id")[measure].astype(float).sort_index()


def _others(its: Mapping[str, str], wanted: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset(choice for choice in its.items() if choice[0] not in wanted)


def _allowed(chosen: Mapping[str, Mapping[str, str]]) -> str:
    """The jobs in words: their numbers, and the choices in which they differ."""
    varying = [key for its in chosen.values() for key in its if len({c.get(key) for c in chosen.values()}) > 1]
    names = {
        job: ",".join(f"{key}={its[key]}" for key in dict.fromkeys(varying) if key in its)
        for job, its in chosen.items()
    }
    listed = [f"{job} ({name})" if name else job for job, name in names.items()]
    more = [] if len(listed) <= JOBS_NAMED else [f"{len(listed) - JOBS_NAMED} more"]
    return f"{FIXED_DEPTH!r} and a job, by its number or its choices: {', '.join([*listed[:JOBS_NAMED], *more])}"
