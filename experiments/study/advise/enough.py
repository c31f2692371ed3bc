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
        raise _too_few(f"the collection has {_queries(count, judged)}", count, ENOUGH - count)


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
    if differ:
        of = "" if telling == queries else f" of {queries}"
        verb = "has" if telling == 1 and not of else "have"
        what = _queries(telling if not of else queries, judged).partition(" ")[2]
        why = f"only {telling}{of} {what} {verb} any quality to keep"
    else:
        why = f"all {_queries(queries, judged)} say the same of every option"
    raise _too_few(why, queries, math.ceil((needed - telling) * queries / max(telling, 1)))


def _queries(count: int, judged: bool) -> str:
    return f"{count} {'judged ' if judged else ''}{'query' if count == 1 else 'queries'}"


def _too_few(why: str, count: int, more: int) -> ConfigError:
    return ConfigError(
        f"nothing can be advised yet: {why}; at least {count + more:,} like these are needed, {more:,} more"
    )
