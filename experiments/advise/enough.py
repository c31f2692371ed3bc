"""Refuses a sample that is too small to advise anything, and says how many queries are needed."""

from __future__ import annotations

import math

from ragtune.core.errors import ConfigError

ENOUGH = 5
"""Queries of some quality below which nothing is told: of fewer no spread can be seen."""


def require_queries(count: int, *, judged: bool) -> None:
    """Refuse fewer queries than any advice needs, before they are scored or replayed.

    Raises:
        ConfigError: with the number that is needed.
    """
    if count < ENOUGH:
        raise ConfigError(
            f"nothing can be advised yet: the collection has {_queries(count, judged)}; at least {ENOUGH} are needed, "
            f"{ENOUGH - count} more"
        )


def require_telling(
    queries: int, telling: int, *, judged: bool, differ: bool, uncovered: int, quality: float, level: float
) -> None:
    """Refuse replayed queries that tell nothing of the options.

    Args:
        queries: how many were replayed.
        telling: for how many of them there is any quality to keep.
        judged: whether people have judged them.
        differ: whether they differ in what any option keeps of them. Where all say the same, as many others may lose
            all as have not been excluded.
        uncovered: queries for which the first stage has no candidates.
        quality: the share to be kept.
        level: of the confidence.

    Raises:
        ConfigError: with the number that is needed, or what the first stage has to add.
    """
    needed = ENOUGH
    if not differ and quality < 1.0:
        needed = max(needed, math.ceil(math.log(1.0 - level) / math.log(quality)))
    if telling >= needed:
        return
    if 2 * uncovered >= queries:
        raise ConfigError(
            f"nothing can be advised yet: the first stage has candidates for only {queries - uncovered} of {queries} "
            f"queries; add the other {uncovered} to its run, or leave them out of the collection"
        )
    why = f"only {telling} of {_queries(queries, judged)} have any quality to keep"
    if not differ:
        why = f"all {_queries(queries, judged)} say the same of every option"
    more = math.ceil((needed - telling) * queries / max(telling, 1))
    raise ConfigError(
        f"nothing can be advised yet: {why}; at least {queries + more:,} like these are needed, {more:,} more"
    )


def _queries(count: int, judged: bool) -> str:
    return f"{count} {'judged ' if judged else ''}{'query' if count == 1 else 'queries'}"
