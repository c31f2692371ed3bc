"""Draws the advice from the replays: the choice, its neighbours, and how sure it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from experiments.advise.advice import Advice, Interval, ListPrice, Question, Row, Rung
from experiments.advise.choose import (
    Bounds,
    Options,
    bounds,
    cheapest,
    choose,
    held_out,
    nearest_question,
    options_of,
)
from experiments.advise.enough import require_telling
from experiments.advise.options import FIXED, Candidate
from experiments.advise.replays import Replays
from experiments.advise.trust import Trust
from experiments.evaluate.significance import Bootstrap
from experiments.label.verdict import Verdict
from experiments.report.prices import UNITS, ListedService, Prices

FOLDS = 10
FEW = 30
"""Queries below which intervals are uncertain themselves."""

SHARES = (1.0, 0.99, 0.98, 0.97, 0.95, 0.9, 0.8)
"""Shares of the full quality that the ladder shows, beside the one that was asked for."""

SHARES_OF_THE_FIRST_STAGE = (1.5, 1.4, 1.3, 1.2, 1.1, 1.05, 1.0)
"""The same where the first stage is the target: what is shown to be that much better."""


def conclude(
    replays: Replays,
    prices: Prices,
    services: Sequence[ListedService],
    *,
    labels: Verdict | None = None,
    quality: float,
    unit: str,
    traffic: int,
    resamples: int,
    level: float,
    seed: int,
    command: str,
    git_sha: str,
) -> Advice:
    """Choose, and say all about it.

    Args:
        replays: every policy on the collection.
        prices: of the reranker.
        services: whose list prices are shown where the reranker has no price.
        labels: what the labels of ragtune label decide; a reranker that harms is not recommended at any depth.
        quality: share of the quality of reranking everything that shall be kept, in (0, 1]. It plays no part where
            the first stage is at least as good as that.
        unit: what "cheap" means, a key of :data:`experiments.report.prices.UNITS`.
        traffic: queries a month.
        resamples, level, seed: of the intervals.
        command, git_sha: the command that makes it again, and the code.

    Raises:
        ConfigError: if there is no quality to keep, or the queries are too few to tell anything.
    """
    options = options_of(replays, prices, unit)
    limit = math.inf if replays.judged else 1.0  # no more than everything can agree
    settings: dict[str, Any] = {"resamples": resamples, "level": level, "seed": seed}
    known = bounds(options, **settings)
    require_telling(
        len(replays.queries),
        known.telling,
        judged=replays.judged,
        differ=known.differ,
        uncovered=replays.uncovered,
        quality=quality,
        level=level,
    )
    chosen = choose(options, known, quality)
    rows = [_row(options, known, i, limit) for i in range(len(options.options))]
    harms = labels is not None and labels.decision.verdict == "harms"
    if harms:
        chosen = options.nothing
    full, best = rows[options.full], rows[chosen]
    question = nearest_question(options, known, chosen, quality)
    return Advice(
        dataset=replays.dataset.name,
        queries=len(replays.queries),
        judged=replays.judged,
        measure=replays.measures[0],
        quality=quality,
        unit=unit,
        level=level,
        traffic=traffic,
        pool=full.cost["docs"],
        prices=prices.model_dump(exclude_defaults=True),
        priced=prices.priced,
        list_prices=[] if "usd" in prices.priced else _listed(services, options, chosen, traffic),
        trust=replays.trust.value,
        trust_gain=None if math.isnan(replays.trust.gain) else _gain(replays.trust),
        recommended=best,
        everything=full,
        first_stage=rows[options.nothing],
        own_order=_own_order(replays, options.options[chosen].candidate),
        target=rows[options.target],
        same_depth=_same_depth(rows, best),
        saved_a_month={name: (full.cost[name] - best.cost[name]) * traffic for name in UNITS},
        ladder=[] if harms else _ladder(options, known, chosen, quality, **settings),
        question=None
        if question is None
        else Question(
            option=options.options[question[0]].label,
            cost=rows[question[0]].cost[unit],
            kept=rows[question[0]].kept.value,
            more_queries=question[1],
        ),
        labels=labels,
        held_out=_within(limit, *held_out(options, quality, FOLDS, **{**settings, "resamples": min(resamples, 500)})),
        options=rows,
        warnings=_warnings(replays, rows, rows[options.target]),
        command=command,
        git_sha=git_sha,
    )


def _row(options: Options, known: Bounds, i: int, limit: float) -> Row:
    option = options.options[i]
    return Row(
        label=option.label,
        policy=option.candidate.policy,
        batch_size=option.candidate.batch,
        budget=option.budget,
        trust=option.candidate.trust,
        quality=float(options.values[:, i].mean()),
        kept=_within(limit, float(known.kept[i]), float(known.low[i]), float(known.high[i])),
        cost={unit: float(cost[:, i].mean()) for unit, cost in options.costs.items()},
    )


def _within(limit: float, value: float, low: float, high: float) -> Interval:
    """An interval of a share, no end of which is beyond what a share can be."""
    return Interval.of(value, low if math.isinf(limit) else max(low, 0.0), min(high, limit))


def _own_order(replays: Replays, candidate: Candidate) -> float | None:
    return replays.curves[candidate.name].start if replays.judged and candidate.policy != FIXED else None


def _gain(trust: Trust) -> Interval:
    return Interval.of(trust.gain, trust.low, trust.high)


def _listed(services: Sequence[ListedService], options: Options, chosen: int, traffic: int) -> list[ListPrice]:
    """A month at list prices; a service that bills tokens is left out where no tokens are known."""
    found = []
    for service in services:
        usd = service.prices.bill(options.work)["usd"].mean(axis=0) * traffic
        if usd[options.full] > 0.0:
            month: dict[str, Any] = {"recommended": float(usd[chosen]), "everything": float(usd[options.full])}
            found.append(ListPrice(**service.model_dump(exclude={"prices"}), **month))
    return found


def _same_depth(rows: Sequence[Row], best: Row) -> Row | None:
    """Fixed depth with at least as many documents: the baseline that the advice has to beat."""
    if best.policy == FIXED:
        return None
    return next(row for row in rows if row.policy == FIXED and row.cost["docs"] >= best.cost["docs"] - 0.5)


def _ladder(options: Options, known: Bounds, chosen: int, quality: float, **settings: Any) -> list[Rung]:
    """The choice for each share, the largest first; shares with the same choice are one rung.

    Where the first stage is the target, its own row ends the table. There is none where it would be the recommended
    option alone.
    """
    cost = options.costs[options.unit].mean(axis=0)
    full = max(float(cost[options.full]), 1e-12)
    is_full = known.target == options.full
    highest: dict[int, float] = {}
    for share in sorted({*SHARES, quality}, reverse=True) if is_full else SHARES_OF_THE_FIRST_STAGE:
        found = cheapest(options, known, share)
        if found is not None:
            highest.setdefault(found, share)
    if not is_full:
        highest.setdefault(options.nothing, 1.0)
    picked = list(highest)
    if picked == [chosen]:
        return []
    differences = options.values[:, picked] - options.values[:, [chosen]]
    low, high = Bootstrap(**settings).interval(differences)
    gains = [
        Interval.of(float(d), float(a), float(b)) for d, a, b in zip(differences.mean(axis=0), low, high, strict=True)
    ]
    following = min((i for i in picked if cost[i] > cost[chosen] + 1e-9), key=lambda i: cost[i], default=None)
    return [
        Rung(
            quality=highest[i],
            option=options.options[i].label,
            cost=float(cost[i]),
            saved=1.0 - float(cost[i]) / full,
            gain=None if i == chosen else gain,
            is_next=i == following,
        )
        for i, gain in zip(picked, gains, strict=True)
    ]


def _warnings(replays: Replays, rows: Sequence[Row], target: Row) -> list[str]:
    # Without judgments the headline says what stands in for them.
    found = [f"{count} {what}" for what, count in replays.dataset.warnings.items() if replays.judged]
    if len(replays.queries) < FEW:
        found.append(
            f"{len(replays.queries)} queries are few: intervals from so small a sample are themselves uncertain"
        )
    best = max(rows, key=lambda row: row.quality)
    if replays.judged and target.budget and best.kept.low is not None and best.kept.low > 1.0:
        found.append(
            f"quality above that of reranking everything can be had: {best.label} has {best.quality:.3f}, "
            f"for {best.cost['docs']:.1f} documents a query"
        )
    return found
