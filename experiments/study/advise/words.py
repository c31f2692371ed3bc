"""The sentences of the advice, the same on the page and in the terminal."""

from __future__ import annotations

import numpy as np

from experiments.study.advise.advice import Advice, Interval, Purchase, Row

NAMES = {"usd": "money", "ms": "time of the model", "docs": "documents", "calls": "calls", "tokens": "tokens"}
"""What the units are called."""


def amount(unit: str, value: float) -> str:
    """An amount of a month, e.g. ``$43.70``, ``4,370,000``, ``11.4 hours``."""
    if unit == "usd":
        return f"{'-' if value < 0 else ''}${abs(value):,.2f}"
    if unit == "ms":
        return _time(value)
    return f"{round(value):,}"


def _time(ms: float) -> str:
    for size, name in ((3_600_000.0, "hours"), (60_000.0, "minutes"), (1000.0, "seconds")):
        if abs(ms) >= 2 * size:
            return f"{ms / size:,.1f} {name}"
    return f"{ms:,.0f} ms"


def each(unit: str, value: float) -> str:
    """A mean amount of a query, e.g. ``24.3 documents``, ``$0.0000711``, ``271 ms``."""
    if unit == "usd":
        return f"${np.format_float_positional(value, precision=3, fractional=False, trim='-')}"
    return f"{value:,.0f} ms" if unit == "ms" else f"{value:,.1f} {'documents' if unit == 'docs' else unit}"


def share(value: float | None) -> str:
    """A share in percent, e.g. ``98.7%``."""
    return "?" if value is None else f"{100.0 * value:.1f}%"


def within(interval: Interval) -> str:
    """An interval of shares, e.g. ``98.7% [95.2%, 102.1%]``."""
    ends = "" if interval.low is None else f" [{share(interval.low)}, {share(interval.high)}]"
    return share(interval.value) + ends


def recommendation(advice: Advice) -> str:
    """What to do, in one sentence."""
    best, full = advice.recommended, advice.everything
    if advice.missing_queries:
        return f"It cannot be told yet what keeps {share(advice.quality)}: {missing(advice)}."
    if not best.budget:
        return "Do not rerank: the first stage's own order keeps the quality."
    if best.label == full.label and advice.judged and does_harm(advice.first_stage, full):
        return (
            f"This reranker seems to do harm: the first stage alone has {advice.measure} "
            f"{advice.first_stage.quality:.3f}, reranking everything {full.quality:.3f}. Yet nothing cheaper than "
            f"reranking everything is shown to keep {share(advice.quality)}."
        )
    if best.label == full.label:
        return f"Rerank everything, in one call: nothing cheaper is shown to keep {share(advice.quality)} yet."
    if best.batch_size is None:
        return f"Rerank the first {best.budget} documents of every query, in one call."
    stops = " or fewer, until the top 10 is settled" if best.policy != "uncertainty" else ""
    return f"Use the policy {best.policy} in batches of {best.batch_size}, with {best.budget} documents a query{stops}."


def does_harm(first_stage: Row, everything: Row) -> bool:
    """Whether the first stage alone is better than reranking everything, on these queries."""
    return first_stage.quality > everything.quality + 1e-12


def missing(advice: Advice) -> str:
    """What keeps advice from being told, and how many queries more it takes, or what the first stage has to add."""
    if 2 * advice.uncovered >= advice.queries:
        return (
            f"the first stage has candidates for only {advice.queries - advice.uncovered} of {advice.queries} queries; "
            f"add the other {advice.uncovered} to its run, or leave them out of the collection"
        )
    queries = "judged queries" if advice.judged else "queries"
    if advice.differ:
        of = "" if advice.telling == advice.queries else f" of {advice.queries}"
        why = f"only {advice.telling}{of} queries have any quality to keep"
    else:
        why = f"all {advice.queries} queries say the same of every option"
    return f"{why}, about {advice.missing_queries:,} {queries} more like these are missing"


def quality(advice: Advice) -> str:
    """What that keeps, and for how much."""
    best, full = advice.recommended, advice.everything
    if best.label == full.label:
        what = "Until then everything is reranked: " if advice.missing_queries else ""
        return f"{what}{advice.measure} is {full.quality:.3f}, for {full.cost['docs']:.1f} documents a query."
    sure = f"and at least {share(best.kept.low)} with {advice.level:.0%} confidence"
    cost = f"for {best.cost['docs']:.1f} of {full.cost['docs']:.1f} documents a query"
    if not advice.judged:
        return f"Its top 10 agrees with that of reranking everything by {share(best.kept.value)}, {sure}, {cost}."
    reached = f"{best.quality:.3f} of {full.quality:.3f}"
    kept = f"{share(best.kept.value)} of the {advice.measure} of reranking everything ({reached})"
    return f"It keeps {kept}, {sure}, {cost}."


def beside_fixed(advice: Advice) -> str | None:
    """What fixed depth keeps with as many documents; None where it is what is recommended."""
    if advice.same_depth is None:
        return None
    fixed = advice.same_depth
    return f"Fixed depth at {fixed.cost['docs']:.1f} documents a query keeps {within(fixed.kept)}."


def saved(advice: Advice) -> list[tuple[str, str]]:
    """What a month saves beside reranking everything in one call: what it is, and how much."""
    return [(NAMES[unit], amount(unit, advice.saved_a_month[unit])) for unit in advice.priced]


def next_purchase(advice: Advice) -> str:
    """What the next dollar buys, or the next documents where nothing has a price."""
    more = advice.next_purchase
    if more is None:
        return "There is nothing more to buy: everything is reranked."
    gain = more.gain
    is_told = gain.low is None or gain.low > 0.0 or (gain.high is not None and gain.high < 0.0)
    told = "" if is_told else ": no gain that can be told from none"
    cost = f"{more.docs:.1f} documents a query more"
    if "usd" in advice.priced:
        cost = f"{amount('usd', more.cost['usd']) if more.cost['usd'] else 'no money'} a month more ({cost})"
    text = f"The next step, {more.option}, costs {cost} and brings {signed(gain)} {advice.measure}{told}."
    if "usd" in advice.priced and more.cost["usd"] > 0 and gain.value > 0:
        text += f" At that rate the next dollar a month buys {gain.value / more.cost['usd']:+.2g}."
    elif "usd" not in advice.priced and gain.value > 0:
        text += f" At that rate the next 10 documents a query buy {10.0 * gain.value / more.docs:+.2g}."
    return text


def signed(gain: Interval) -> str:
    """A difference with its interval, e.g. ``+0.011 [+0.000, +0.025]``."""
    ends = "" if gain.low is None else f" [{gain.low:+.3f}, {gain.high:+.3f}]"
    return f"{gain.value:+.3f}{ends}"


def price(advice: Advice, purchase: Purchase) -> str:
    """What a purchase costs a month, in the unit that counts, else in documents a query."""
    if advice.unit in ("usd", "ms"):
        return ("+" if purchase.cost[advice.unit] > 0 else "") + amount(advice.unit, purchase.cost[advice.unit])
    return f"{purchase.docs:+.1f} a query"


def sureness(advice: Advice) -> list[str]:
    """How sure the advice is, in sentences."""
    sure = advice.sure
    if advice.missing_queries:
        return []
    found = [
        f"The lower end holds for all {sum(row.deployable for row in advice.options)} options at once, so it is not "
        "flattered by having been chosen."
    ]
    if sure.held_out is not None:
        found.append(f"Chosen on nine tenths of the queries and measured on the rest in turn: {within(sure.held_out)}.")
    if sure.halvings:
        found.append(
            f"Chosen on one half and looked at on the other, {sure.halvings} times: what it kept was in the interval "
            f"{sure.held} times, at least the {share(advice.quality)} wanted {sure.promise} times; on average it kept "
            f"{share(sure.kept)} and saved {share(sure.saved)}."
        )
    found.append(f"On {advice.queries} other queries like these, expect {within(sure.as_many_new)}.")
    return found


def more_queries(advice: Advice) -> str:
    """How many further queries would settle what is open."""
    what = "judged queries" if advice.judged else "queries"
    if advice.missing_queries:
        return f"How sure this is cannot be told: {missing(advice)}."
    if not advice.questions:
        return f"No cheaper option seems to keep {share(advice.quality)}: more queries are not likely to change this."
    nearest = advice.questions[-1]
    return (
        f"{nearest.option[:1].upper()}{nearest.option[1:]} seems to keep {share(nearest.kept)} for "
        f"{each(advice.unit, nearest.cost)} a query; about {nearest.more_queries:,} {what} more would show whether "
        "it does (with a chance of 80%, if they are like these)."
    )
