"""What the jobs of a sweep have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.config.jobs import parsed
from ragtune.core.request.limits import LIMITS

Jobs = Sequence[Sequence[str]]
"""Overrides of jobs, in their order."""

_KEYS = tuple(f"budget.{LIMITS[unit]}" for unit in ("docs", "calls"))
"""Limits under which one replay tells what comes of smaller ones."""


def later_budgets(budget: Mapping[str, Any], job: Sequence[str], jobs: Jobs) -> list[dict[str, Any]]:
    """The budgets, as plain data, of the jobs after this one that differ from it by one limit alone.

    Args:
        budget: the job's own.
        job: its overrides.
        jobs: those of the jobs of a sweep; where it is not among them, none is after it.
    """
    after = jobs[jobs.index(job) + 1 :] if job in jobs else ()
    for key in _KEYS:
        own, limit = _apart(job, key)
        mates = [limit_of for others, limit_of in (_apart(other, key) for other in after) if others == own]
        if limit and mates:
            values = dict.fromkeys(parsed(each[0]).value() for each in mates if each)
            return [{**budget, key.partition(".")[2]: value} for value in values]
    return []


def _apart(job: Sequence[str], key: str) -> tuple[list[str], list[str]]:
    """The words of a job that do not set an option, and those that do."""
    sets = [word for word in job if word.startswith(f"{key}=")]
    return [word for word in job if word not in sets], sets
