"""Draws the advice from the replays: the choice, its neighbours, and how sure it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from experiments.advise.advice import Advice, Interval, ListPrice, MeasuredOption, OpenQuestion, Rung, SourceAgreement
from experiments.advise.choose import Bounds, Options, bounds, cheapest, choose, nearest_question, options_of
from experiments.advise.options import BASELINES
from experiments.advise.replays import ENOUGH, Replays, Setting, counted_queries
from experiments.evaluate.significance import Bootstrap
from experiments.label.plan import Verdict
from experiments.report.prices import UNITS, ListedService, Prices
from ragtune.core.errors import ConfigError
from ragtune.estimators.posterior.correlation import ENOUGH_REQUESTS, SourceCorrelation

FEW = 30
"""Queries below which intervals are uncertain themselves."""

SHARES = (1.0, 0.99, 0.98, 0.97, 0.95, 0.9, 0.8)
"""Shares of the full quality that the ladder shows, beside the one that was asked for."""

SHARES_OF_THE_FIRST_STAGE = (1.5, 1.4, 1.3, 1.2, 1.1, 1.05, 1.0)
"""The same where the first stage is the target."""


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
    """Choose and join all that the page says: ``quality`` is the share to keep, ``traffic`` in queries a month."""
    options = options_of(replays, prices, unit)
    settings: dict[str, Any] = {"resamples": resamples, "level": level, "seed": seed}
    known = bounds(options, **settings)
    _require_telling(replays, known, quality, level)
    chosen = choose(options, known, quality)
    rows = [_row(options, known, i, replays.judged) for i in range(len(options.options))]
    harms = labels is not None and labels.decision.verdict == "harms"
    is_useless = replays.correlation is not None and replays.trust.value == 0.0
    if harms or is_useless:
        chosen = options.nothing
    full, best = rows[options.full], rows[chosen]
    start = replays.curves[options.options[chosen].candidate.name].start
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
        trust_gain=_gain(replays.trust),
        source_agreement=_source_agreement(replays.correlation),
        weight=replays.weight.value,
        weight_gain=_gain(replays.weight),
        recommended=best,
        everything=full,
        first_stage=rows[options.nothing],
        own_order=start if replays.judged and best.policy not in BASELINES else None,
        target=rows[options.target],
        same_depth=_same_depth(rows, best),
        saved_a_month={name: (full.cost[name] - best.cost[name]) * traffic for name in UNITS},
        ladder=[] if harms or is_useless else _ladder(options, known, chosen, quality, **settings),
        question=_question(options, known, chosen, quality),
        labels=labels,
        options=rows,
        warnings=_warnings(replays),
        command=command,
        git_sha=git_sha,
    )


def _gain(setting: Setting) -> Interval | None:
    return None if math.isnan(setting.gain) else Interval.of(setting.gain, setting.low, setting.high)


def _source_agreement(found: SourceCorrelation | None) -> SourceAgreement | None:
    if found is None:
        return None
    half = found.mean - found.low if found.requests >= ENOUGH_REQUESTS else math.nan
    correlation = Interval.of(found.mean, found.mean - half, found.mean + half)
    return SourceAgreement(correlation=correlation, queries=found.requests)


def _require_telling(replays: Replays, known: Bounds, quality: float, level: float) -> None:
    """Refuse replayed queries that tell nothing of the options, with the number that is needed."""
    needed, queries = ENOUGH, len(replays.queries)
    if not known.differ and quality < 1.0:  # as many others may lose all as have not been excluded
        needed = max(needed, math.ceil(math.log(1.0 - level) / math.log(quality)))
    if known.telling >= needed:
        return
    if 2 * replays.uncovered >= queries:
        raise ConfigError(
            f"nothing can be advised yet: the first stage has candidates for only {queries - replays.uncovered} of "
            f"{queries} queries; add the other {replays.uncovered} to its run, or leave them out of the collection"
        )
    have = counted_queries(queries, replays.judged)
    why = f"only {known.telling} of {have} have any quality to keep"
    if not known.differ:
        why = f"all {have} say the same of every option"
    more = math.ceil((needed - known.telling) * queries / max(known.telling, 1))
    raise ConfigError(
        f"nothing can be advised yet: {why}; at least {queries + more:,} like these are needed, {more:,} more"
    )


def _row(options: Options, known: Bounds, i: int, judged: bool) -> MeasuredOption:
    option = options.options[i]
    kept, low, high = (float(ends[i]) for ends in (known.kept, known.low, known.high))
    return MeasuredOption(
        label=option.label,
        policy=option.candidate.policy,
        batch_size=option.candidate.batch,
        budget=option.budget,
        trust=option.candidate.trust,
        weight=option.candidate.weight,
        quality=float(options.values[:, i].mean()),
        kept=Interval.of(kept, low, high) if judged else Interval.of(kept, max(low, 0.0), min(high, 1.0)),
        cost={unit: float(cost[:, i].mean()) for unit, cost in options.costs.items()},
    )


def _listed(services: Sequence[ListedService], options: Options, chosen: int, traffic: int) -> list[ListPrice]:
    """A month at list prices; a service that bills tokens is left out where no tokens are known."""
    found = []
    for service in services:
        usd = service.prices.bill(options.work)["usd"].mean(axis=0) * traffic
        if usd[options.full] > 0.0:
            month: dict[str, Any] = {"recommended": float(usd[chosen]), "everything": float(usd[options.full])}
            found.append(ListPrice(**service.model_dump(exclude={"prices"}), **month))
    return found


def _same_depth(rows: Sequence[MeasuredOption], best: MeasuredOption) -> list[MeasuredOption]:
    """The other baselines with at least as many documents, which the advice has to beat; none beside no reranking."""
    others = [policy for policy in BASELINES if policy != best.policy and best.budget]
    enough = [row for row in rows if row.cost["docs"] >= best.cost["docs"] - 0.5]
    return [found for policy in others if (found := next((row for row in enough if row.policy == policy), None))]


def _question(options: Options, known: Bounds, chosen: int, quality: float) -> OpenQuestion | None:
    found = nearest_question(options, known, chosen, quality)
    if found is None:
        return None
    i, more = found
    cost = float(options.costs[options.unit][:, i].mean())
    return OpenQuestion(option=options.options[i].label, cost=cost, kept=float(known.kept[i]), more_queries=more)


def _ladder(options: Options, known: Bounds, chosen: int, quality: float, **settings: Any) -> list[Rung]:
    """The choice for each share, the largest first; shares with the same choice are one rung."""
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
    gains = map(Interval.of, differences.mean(axis=0).tolist(), low.tolist(), high.tolist())
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


def _warnings(replays: Replays) -> list[str]:
    # Without judgments the headline says what stands in for them.
    found = [f"{count} {what}" for what, count in replays.dataset.warnings.items() if replays.judged]
    if len(replays.queries) < FEW:
        found.append(
            f"{len(replays.queries)} queries are few: intervals from so small a sample are themselves uncertain"
        )
    return found
