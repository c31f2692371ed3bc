"""Draws the advice from the replays: the choice, its neighbours, and how sure it is."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments.evaluate.curves import bootstrap_interval
from experiments.label.verdict import Verdict
from experiments.study.advise.advice import Advice, Interval, ListPrice, Purchase, Question, Row, Rung, Sureness
from experiments.study.advise.choose import (
    Bounds,
    Options,
    bounds,
    choose,
    halvings,
    held_out,
    missing_queries,
    on_others,
    open_questions,
    options_of,
)
from experiments.study.advise.list_prices import ListedService
from experiments.study.advise.options import FIXED
from experiments.study.advise.prices import UNITS, Prices
from experiments.study.advise.replays import Replays
from experiments.study.advise.trust import Trust
from experiments.study.advise.words import FEW, does_harm

HALVINGS = 50
FOLDS = 10
TARGETS = (0.99, 0.98, 0.97, 0.95, 0.9, 0.8)
"""Shares of the full quality that the ladder shows, beside the one that was asked for."""


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
        quality: share of the quality of reranking everything that shall be kept, in (0, 1].
        unit: what "cheap" means, a key of :data:`experiments.study.advise.prices.UNITS`.
        traffic: queries a month.
        resamples, level, seed: of the intervals.
        command, git_sha: the command that makes it again, and the code.

    Raises:
        ConfigError: if reranking everything is worth nothing.
    """
    options = options_of(replays, prices, unit)
    limit = math.inf if replays.judged else 1.0  # no more than everything can agree
    settings: dict[str, Any] = {"resamples": resamples, "level": level, "seed": seed}
    known = bounds(options, **settings)
    chosen, missing = choose(options, known, quality), missing_queries(known, quality, level)
    rows = [_row(options, known, i, limit) for i in range(len(options.options))]
    nothing = next(i for i, option in enumerate(options.options) if option.is_nothing)
    is_worse = replays.judged and rows[chosen].quality < rows[nothing].quality
    if is_worse or (labels is not None and labels.decision.verdict == "harms"):
        chosen = nothing  # what costs nothing is better, whatever share of the full reranking the other keeps
    purchases = [] if missing else _purchases(options, chosen, traffic, **settings)
    dearer = [one for one in purchases if one.docs > 0]
    full, best = rows[options.full], rows[chosen]
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
        first_stage=rows[nothing],
        same_depth=_same_depth(rows, best),
        saved_a_month={name: (full.cost[name] - best.cost[name]) * traffic for name in UNITS},
        purchases=purchases,
        next_purchase=dearer[0] if dearer else None,
        ladder=_ladder(options, known, sorted({*TARGETS, quality}, reverse=True)),
        questions=[
            Question(
                option=options.options[one.option].label,
                cost=rows[one.option].cost[unit],
                kept=rows[one.option].kept.value,
                more_queries=one.more_queries,
            )
            for one in ([] if missing else open_questions(options, known, chosen, quality))
        ],
        telling=known.telling,
        differ=known.differ,
        labels=labels,
        missing_queries=missing,
        uncovered=replays.uncovered,
        sure=_sureness(options, known, chosen, quality, limit, **{**settings, "resamples": min(resamples, 500)}),
        options=rows,
        warnings=_warnings(replays, rows, best, full, rows[nothing], unit=unit, quality=quality, missing=missing),
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
        deployable=option.candidate.deployable,
        quality=float(options.values[:, i].mean()),
        kept=_within(limit, float(known.kept[i]), float(known.low[i]), float(known.high[i])),
        cost={unit: float(cost[:, i].mean()) for unit, cost in options.costs.items()},
    )


def _within(limit: float, value: float, low: float, high: float) -> Interval:
    """An interval of a share, no end of which is beyond what a share can be."""
    return Interval.of(value, low if math.isinf(limit) else max(low, 0.0), min(high, limit))


def _gain(trust: Trust) -> Interval:
    return Interval.of(trust.gain, trust.low, trust.high)


def _listed(services: Sequence[ListedService], options: Options, chosen: int, traffic: int) -> list[ListPrice]:
    """A month at list prices; a service that bills tokens is left out where no tokens are known."""
    found = []
    for service in services:
        usd = service.prices.bill(options.work)["usd"].mean(axis=0) * traffic
        if usd[options.full] > 0.0:
            month = {"recommended": float(usd[chosen]), "everything": float(usd[options.full])}
            found.append(ListPrice(name=service.name, read=service.read, source=service.source, **month))
    return found


def _same_depth(rows: Sequence[Row], best: Row) -> Row | None:
    """Fixed depth with at least as many documents: the incumbent that the advice has to beat."""
    if best.policy == FIXED:
        return None
    return next(row for row in rows if row.policy == FIXED and row.cost["docs"] >= best.cost["docs"] - 0.5)


def _purchases(options: Options, chosen: int, traffic: int, **settings: Any) -> list[Purchase]:
    """What two smaller and up to four larger budgets of the same policy buy, by documents.

    Beyond the last budget at which a policy still stops by itself stand those of its batches without a stop; beside no
    reranking it is small batches that are bought, not a depth.
    """
    own = options.options[chosen].candidate
    docs = options.costs["docs"].mean(axis=0)

    def budgets_of(name: str, above: float) -> list[int]:
        return [i for i, o in enumerate(options.options) if o.candidate.name == name and docs[i] > above + 0.5]

    unstopped = f"uncertainty/{own.batch or 5}"
    if options.options[chosen].is_nothing:
        row = [chosen, *budgets_of(unstopped, 0.0)]
    else:
        row = [i for i, option in enumerate(options.options) if option.candidate.name == own.name]
        row += budgets_of(unstopped, docs[row[-1]]) if own.stops else []
    at = row.index(chosen)
    picked = [*row[max(0, at - 2) : at], *row[at + 1 : at + 5]]
    if not picked:
        return []
    differences = options.values[:, picked] - options.values[:, [chosen]]
    low, high = bootstrap_interval(differences, **settings)
    means = {unit: cost.mean(axis=0) for unit, cost in options.costs.items()}
    return [
        Purchase(
            option=options.options[i].label,
            docs=float(docs[i] - docs[chosen]),
            cost={unit: float(mean[i] - mean[chosen]) * traffic for unit, mean in means.items()},
            gain=Interval(value=float(differences[:, k].mean()), low=float(low[k]), high=float(high[k])),
        )
        for k, i in enumerate(picked)
    ]


def _ladder(options: Options, known: Bounds, qualities: Sequence[float]) -> list[Rung]:
    """The choice for each share, the largest first; shares with the same choice are one rung."""
    cost = options.costs[options.unit].mean(axis=0)
    full = max(float(cost[options.full]), 1e-12)
    highest: dict[int, float] = {}
    for quality in qualities:
        highest.setdefault(choose(options, known, quality), quality)
    return [
        Rung(quality=top, option=options.options[i].label, cost=float(cost[i]), saved=1.0 - float(cost[i]) / full)
        for i, top in highest.items()
    ]


def _sureness(options: Options, known: Bounds, chosen: int, quality: float, limit: float, **settings: Any) -> Sureness:
    # Half of three queries is one, of which there is no spread.
    trials = list(halvings(options, quality, HALVINGS, **settings)) if known.queries >= 4 else []
    named = [options.options[one.option] for one in trials]
    policies = ["no reranking" if o.is_nothing else "everything" if o.is_full else o.candidate.label for o in named]
    return Sureness(
        halvings=len(trials),
        held=sum(one.holds for one in trials),
        promise=sum(one.kept >= quality for one in trials),
        kept=float(np.mean([one.kept for one in trials])) if trials else 0.0,
        saved=float(np.mean([one.saved for one in trials])) if trials else 0.0,
        choices=dict(Counter(policies).most_common()),
        held_out=_within(limit, *held_out(options, quality, FOLDS, **settings)) if known.queries >= 4 else None,
        as_many_new=_within(limit, *on_others(known, chosen, known.queries)),
    )


def _warnings(
    replays: Replays,
    rows: Sequence[Row],
    chosen: Row,
    full: Row,
    nothing: Row,
    *,
    unit: str,
    quality: float,
    missing: int,
) -> list[str]:
    # Without judgments the headline says what stands in for them.
    found = [f"{count} {what}" for what, count in replays.dataset.warnings.items() if replays.judged]
    if missing:
        return found
    if len(replays.queries) < FEW:
        found.append(
            f"{len(replays.queries)} queries are few: intervals from so small a sample are themselves uncertain"
        )
    best = max((row for row in rows if row.deployable), key=lambda row: row.quality)
    if replays.judged and does_harm(nothing, full):
        found.append(
            f"this reranker does harm here: the first stage alone has {replays.measures[0]} {nothing.quality:.3f}, "
            f"reranking everything {full.quality:.3f}"
        )
    if replays.judged and best.kept.low is not None and best.kept.low > 1.0:
        found.append(
            f"quality above that of reranking everything can be had: {best.label} has {best.quality:.3f}, "
            f"for {best.cost['docs']:.1f} documents a query"
        )
    rivals = [row for row in rows if not row.deployable and row.cost[unit] < chosen.cost[unit]]
    rivals = [row for row in rivals if row.kept.low is not None and row.kept.low >= quality]
    if rivals:
        rival = min(rivals, key=lambda row: row.cost[unit])
        found.append(
            f"{rival.label}, which only ragtune run has, would do for {rival.cost['docs']:.1f} documents a query: "
            f"it keeps {100 * rival.kept.value:.1f}%"
        )
    return found
