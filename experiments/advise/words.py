"""The sentences of the advice, the same on the page and in the terminal."""

from __future__ import annotations

import numpy as np

from experiments.advise.advice import Advice, Interval, MeasuredOption
from experiments.advise.options import INTERPOLATED
from ragtune.core.policy.defaults import TRUST
from ragtune.estimators.interpolation import WEIGHT
from ragtune.estimators.posterior.correlation import ENOUGH_REQUESTS

NAMES = {"usd": "money", "ms": "time of the model", "docs": "documents", "calls": "calls", "tokens": "tokens"}


def amount(unit: str, value: float) -> str:
    """An amount of a month, e.g. ``$43.70``, ``4,370,000``, ``11.4 hours``."""
    if unit == "usd":
        return f"{'-' if value < 0 else ''}${abs(value):,.2f}"
    if unit == "ms":
        for size, name in ((3_600_000.0, "hours"), (60_000.0, "minutes"), (1000.0, "seconds")):
            if abs(value) >= 2 * size:
                return f"{value / size:,.1f} {name}"
        return f"{value:,.0f} ms"
    return f"{round(value):,}"


def each(unit: str, value: float) -> str:
    """A mean amount of a query, e.g. ``24.3 documents``, ``$0.0000711``, ``271 ms``."""
    if unit == "usd":
        return f"${np.format_float_positional(value, precision=3, fractional=False, trim='-')}"
    return f"{value:,.0f} ms" if unit == "ms" else f"{value:,.1f} {NAMES[unit]}"


def share(value: float | None) -> str:
    """A share in percent, e.g. ``98.7%``."""
    return "?" if value is None else f"{100.0 * value:.1f}%"


def within(interval: Interval) -> str:
    """An interval of shares, e.g. ``98.7% [95.2%, 102.1%]``."""
    ends = "" if interval.low is None else f" [{share(interval.low)}, {share(interval.high)}]"
    return share(interval.value) + ends


def signed(gain: Interval) -> str:
    """A difference with its interval, e.g. ``+0.011 [+0.000, +0.025]``."""
    ends = "" if gain.low is None else f" [{gain.low:+.3f}, {gain.high:+.3f}]"
    return f"{gain.value:+.3f}{ends}"


def goal(advice: Advice) -> str:
    """The aim, e.g. ``keep 95.0% of the nDCG@10 of reranking everything``."""
    if advice.is_worse:
        return f"more {advice.measure} than the first stage alone"
    if not advice.judged:
        return f"keep {share(advice.quality)} {advice.measure}"
    return f"keep {share(advice.quality)} of the {advice.measure} of {target(advice)}"


def target(advice: Advice) -> str:
    """The option that shares refer to."""
    return "the first stage alone" if advice.is_worse else "reranking everything"


def recommendation(advice: Advice) -> str:
    """What to do, in a sentence or two; without judgments under the condition that agreement cannot check."""
    said = _option(advice)
    if advice.is_worse and advice.recommended.budget:
        return f"Do not rerank everything. Shown to be better than no reranking: {said[:1].lower()}{said[1:]}"
    if advice.harms_by_labels:
        return "Do not rerank: by the labels, the first stage's own order is better."
    if advice.shows_no_use:
        return "Do not rerank until judgments say otherwise: nothing shows that this reranker is useful."
    if advice.judged or (advice.labels is not None and advice.labels.decision.verdict == "helps"):
        return said
    return f"If you want the full reranking: {said[:1].lower()}{said[1:]}"


def _option(advice: Advice) -> str:
    best, full = advice.recommended, advice.everything
    if not best.budget:
        if advice.is_worse:
            return "Do not rerank: nothing here is shown to be better than the first stage alone."
        return "Do not rerank: the first stage's own order keeps the quality."
    if best.label == full.label:
        return f"Rerank everything, in one call: nothing cheaper is shown to keep {share(advice.quality)} yet."
    if best.batch_size is None:
        ranked = " Rank them by both scores (interpolated_fixed_depth)." if best.policy == INTERPOLATED else ""
        return f"Rerank the first {best.budget} documents of every query, in one call.{ranked}"
    stops = " or fewer, until the top 10 is settled" if best.policy != "uncertainty" else ""
    trust = "" if best.trust is None else f" and trust {best.trust:g}"
    depth = f"with {best.budget} documents a query{stops}"
    return f"Use the policy {best.policy} in batches of {best.batch_size}{trust}, {depth}."


def beside_the_headline(advice: Advice) -> list[str]:
    """The text below the recommendation, a sentence or two each."""
    said = [harm(advice), source_agreement(advice), limits_of_agreement(advice), quality(advice), own_order(advice)]
    best = advice.recommended
    said += [beside_baselines(advice), _chosen(advice, "Trust", best.trust, TRUST, advice.trust_gain)]
    said += [_chosen(advice, "The first stage's weight", best.weight, WEIGHT, advice.weight_gain)]
    said += [money(advice), latency(advice)]
    return [one for one in said if one]


def harm(advice: Advice) -> str | None:
    """What reranking everything does to the first stage; None where it is better than that."""
    if not advice.is_worse:
        return None
    full, kept = advice.everything, advice.everything.kept
    figures = f"the first stage alone has {advice.measure} {advice.first_stage.quality:.3f}, reranking everything "
    figures += f"{full.quality:.3f}, which is {within(kept)} of it"
    if kept.high is None or kept.high >= 1.0:
        return f"On these queries {figures}. So large a difference may be chance."
    return f"This reranker does harm: {figures}."


def source_agreement(advice: Advice) -> str | None:
    """The trust that the scores themselves have set, and why; None with judgments that set it."""
    if advice.source_agreement is None:
        return None
    found, queries = advice.source_agreement.correlation, f"{advice.source_agreement.queries} queries"
    if found.high is None:
        few = f"{queries} are too few to compare the reranker's scores with the first stage"
        return f"Trust stays at {advice.trust:g}: {few} ({ENOUGH_REQUESTS} are needed)."
    seen = f"(correlation {found.value:+.2f} ± {found.high - found.value:.2f} over {queries})"
    agree = "agree" if advice.trust >= TRUST else f"are not shown to agree{' much' if advice.trust else ''}"
    said = f"Trust {advice.trust:g}: the reranker's scores {agree} with the first stage {seen}."
    usual = "Scores of useful rerankers nearly always agree, unless the first stage is hardly better than chance."
    return said if advice.trust else f"{said} {usual}"


LABELS_NEEDED = (
    "Plan 25 pairs of documents (50 labels), and up to 200 pairs (400 labels) where those do not decide. In "
    "simulations on seven collections, the median was 25 pairs or fewer where reranking changed nDCG@10 by .15 or "
    "more (dl19, medquad-liveqa), 200 or fewer where by .04 or more (cacm, bright-biology, bright-stackoverflow). "
    "Below .03, nfcorpus took 945 pairs, and cranfield stayed undecided."
)
"""Labels until ``ragtune label`` decided: the last column of the table of docs/howto/label.md."""


def limits_of_agreement(advice: Advice) -> str | None:
    """What agreement can and cannot show, and how many judged queries decide; None with judgments."""
    if advice.judged:
        return None
    if advice.labels is not None:
        return f"{advice.labels.text} They choose no depth: that goes by agreement with the full reranking."
    # 95% confidence, a chance of 80%, a deviation of .2 over queries (demo, nfcorpus, cranfield, dl19: .14 to .21).
    return (
        "Agreement compares the top 10 under a budget with the same policy's top 10 once everything is scored. It "
        "shows how much of the full reranking a budget keeps. It cannot show whether that reranking helps: a harmful "
        "reranker agrees with itself as well. Judgments decide: about 32 judged queries show a difference of .10 "
        "in nDCG@10 between the first stage and the reranking, about 126 one of .05. Add them as qrels and repeat "
        "the command with dataset.split. Without any, ragtune label, with the options of this command, asks for those "
        f"labels that say most. {LABELS_NEEDED}"
    )


def quality(advice: Advice) -> str | None:
    """The quality that is kept, and its cost; None where the first stage is kept."""
    best, full = advice.recommended, advice.everything
    docs = full.cost["docs"]
    if advice.keeps_first_stage:
        return None
    if best.label == full.label:
        measure = f"{advice.measure[:1].upper()}{advice.measure[1:]}"
        return f"{measure} is {full.quality:.3f}, for {docs:.1f} documents a query."
    sure = f"and at least {share(best.kept.low)} with {advice.level:.0%} confidence"
    cost = f"for {best.cost['docs']:.1f} of {docs:.1f} documents a query"
    if not advice.judged:
        return f"Its top 10 agrees by {share(best.kept.value)} with its own once everything is scored, {sure}, {cost}."
    reached = f"{best.quality:.3f} of {advice.target.quality:.3f}"
    kept = f"{share(best.kept.value)} of the {advice.measure} of {target(advice)} ({reached})"
    return f"It {'reaches' if advice.is_worse else 'keeps'} {kept}, {sure}, {cost}."


def own_order(advice: Advice) -> str | None:
    """The quality of the recommended policy's order before any score; None without such an order."""
    if advice.own_order is None:
        return None
    first, before, best = advice.first_stage.quality, advice.own_order, advice.recommended.quality
    said = f"At 0 documents the first stage alone has {advice.measure} {first:.3f}. The policy's own order has "
    said += f"{before:.3f}, and needs no reranker."
    comes_first = best > first and before - first >= 0.5 * (best - first)
    return f"{said} Most of the gain comes before any score." if comes_first else said


def beside_baselines(advice: Advice) -> str | None:
    """What the other baselines keep with the same number of documents; None without any."""
    if not advice.same_depth:
        return None
    does = "agrees with its own order of all documents by"
    if advice.judged:
        does = "reaches" if advice.is_worse else "keeps"
    depth = advice.same_depth[0].cost["docs"]
    kept = [f"{_baseline(row)} {does} {within(row.kept)}" for row in advice.same_depth]
    return f"At {depth:.1f} documents a query, {' and '.join(kept)}."


def _baseline(row: MeasuredOption) -> str:
    name = row.policy.replace("_", " ")
    return name if row.weight is None else f"{name} (weight {row.weight:g})"


def _chosen(advice: Advice, name: str, value: float | None, default: float, gain: Interval | None) -> str | None:
    """What choosing an option has gained; None where it was not chosen, or the recommended policy has none."""
    if value is None or gain is None:
        return None
    brings = f"{signed(gain)} {advice.measure} in cross-validation, averaged over budgets"
    if value == default:
        return f"{name} stays at {default:g}: choosing another one by these judgments brings {brings}."
    return f"{name} {value:g} instead of {default:g} was chosen by these judgments: it brings {brings}."


def money(advice: Advice) -> str:
    """The cost of a month: by the reranker's price, else at public list prices."""
    best, full, month = advice.recommended, advice.everything, f"a month at {advice.traffic:,} queries"
    if "usd" in advice.priced:
        costs = [amount("usd", row.cost["usd"] * advice.traffic) for row in (best, full)]
        return f"Money: {_instead(advice, *costs)} {month}."
    unknown = "Money: no price of this reranker is known (--prices FILE gives one)."
    if not advice.list_prices:
        return unknown
    listed = "; ".join(
        f"{one.name} {_instead(advice, amount('usd', one.recommended), amount('usd', one.everything))}"
        + (", more since it bills every call" if one.recommended > one.everything else "")
        for one in advice.list_prices
    )
    has_secondary = any(one.secondary for one in advice.list_prices)
    secondary = " (secondary sources, not the vendors' own pages)" if has_secondary else ""
    return f"{unknown} At public list prices{secondary} {month}: {listed}."


def latency(advice: Advice) -> str:
    """How long the model works on a query; without a measured time, how often it is called."""
    rows = advice.recommended, advice.everything
    if "ms" in advice.priced:
        times = [each("ms", row.cost["ms"]) for row in rows]
        return f"Latency: {_instead(advice, *times)}, the model's time a query."
    calls = [f"{row.cost['calls']:.1f}" for row in rows]
    return f"Latency: no time was measured; calls one after the other a query: {_instead(advice, *calls)}."


def _instead(advice: Advice, recommended: str, everything: str) -> str:
    is_everything = advice.recommended.label == advice.everything.label
    return everything if is_everything else f"{recommended} instead of {everything}"


def saved(advice: Advice) -> list[tuple[str, str]]:
    """Names and amounts that a month saves beside reranking everything in one call."""
    return [(NAMES[unit], amount(unit, advice.saved_a_month[unit])) for unit in advice.priced]


def ladder(advice: Advice) -> list[tuple[str, ...]]:
    """The table of choices by share, its head first: option, share, cost, saved share, and change."""
    head = f"cheapest that is shown to {'reach' if advice.is_worse else 'keep'}, of {target(advice)}"
    rows = [
        (
            f"{rung.option} (next step)" if rung.is_next else rung.option,
            share(rung.quality),
            each(advice.unit, rung.cost),
            share(rung.saved),
            "recommended" if rung.gain is None else signed(rung.gain),
        )
        for rung in advice.ladder
    ]
    return [(head, "at least", "cost a query", "saved", advice.measure), *rows]


def of_the_ladder(advice: Advice) -> str:
    """What the last column of that table is, and what it is not."""
    said = (
        f"The last column is the difference in {advice.measure} from what is recommended, with its {advice.level:.0%} "
        "interval for that row alone; the choice goes by bounds that hold for all options at once."
    )
    return said if any(one.is_next for one in advice.ladder) else f"{said} No dearer option is shown to do more."


def sureness(advice: Advice) -> list[str]:
    """How sure the advice is, and what more queries would show; nothing where no budget was chosen by this."""
    if advice.is_decided_before:
        return []
    for_all = f"The lower end holds for all {len(advice.options)} options at once, whichever of them is chosen."
    return [more_queries(advice)] if advice.keeps_first_stage else [for_all, more_queries(advice)]


def more_queries(advice: Advice) -> str:
    """How many further queries would settle what is undecided."""
    if advice.question is None:
        seems = f"to keep {share(advice.quality)}"
        option = "cheaper option"
        if advice.is_worse:
            option, seems = "cheaper option" if advice.recommended.budget else "option", "better than no reranking"
        return f"No {option} seems {seems}: more queries are not likely to change this."
    nearest, what = advice.question, "judged queries" if advice.judged else "queries"
    does = "reach" if advice.is_worse else "keep"
    return (
        f"{nearest.option[:1].upper()}{nearest.option[1:]} seems to {does} {share(nearest.kept)} of {target(advice)} "
        f"for {each(advice.unit, nearest.cost)} a query; about {nearest.more_queries:,} {what} more would show whether "
        f"it is {'better' if advice.is_worse else 'enough'} (with a chance of 80%, if they are like these)."
    )
