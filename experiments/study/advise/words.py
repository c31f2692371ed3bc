"""The sentences of the advice, the same on the page and in the terminal."""

from __future__ import annotations

import math

import numpy as np

from experiments.study.advise.advice import Advice, Interval, Purchase, Row
from ragtune.facade.defaults import TRUST

FEW = 30
"""Queries below which intervals are uncertain themselves."""

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
    """What to do, in one sentence; without judgments under the condition that agreement cannot check."""
    best, full = advice.recommended, advice.everything
    if advice.missing_queries:
        return f"Nothing can be advised yet: {missing(advice)}."
    if advice.judged and best.label == full.label and does_harm(advice.first_stage, full):
        return (
            f"This reranker seems to do harm: the first stage alone has {advice.measure} "
            f"{advice.first_stage.quality:.3f}, reranking everything {full.quality:.3f}. Yet nothing cheaper than "
            f"reranking everything is shown to keep {share(advice.quality)}."
        )
    said = _option(advice)
    verdict = "undecided" if advice.labels is None else advice.labels.decision.verdict
    if verdict == "harms":
        return "Do not rerank: by the labels, the first stage's own order is better."
    if advice.judged or verdict == "helps":
        return said
    return f"If you want the full reranking: {said[:1].lower()}{said[1:]}"


def _option(advice: Advice) -> str:
    best, full = advice.recommended, advice.everything
    if not best.budget:
        return "Do not rerank: the first stage's own order keeps the quality."
    if best.label == full.label:
        return f"Rerank everything, in one call: nothing cheaper is shown to keep {share(advice.quality)} yet."
    if best.batch_size is None:
        return f"Rerank the first {best.budget} documents of every query, in one call."
    stops = " or fewer, until the top 10 is settled" if best.policy != "uncertainty" else ""
    trust = "" if best.trust is None else f" and trust {best.trust:g}"
    depth = f"with {best.budget} documents a query{stops}"
    return f"Use the policy {best.policy} in batches of {best.batch_size}{trust}, {depth}."


JUDGED_SPREAD = 0.2
"""Standard deviation over queries of what reranking changes in nDCG@10: .14 to .21 on the demo, nfcorpus, cranfield
and TREC DL 2019."""


def queries_to_judge(difference: float) -> int:
    """Judged queries that show a mean difference in nDCG@10 with 95% confidence and a chance of 80%."""
    return math.ceil(((1.96 + 0.8416) * JUDGED_SPREAD / difference) ** 2)


def limits_of_agreement(advice: Advice) -> str | None:
    """What agreement can and cannot show, and how many judged queries decide; None with judgments."""
    if advice.judged:
        return None
    if advice.labels is not None:
        return f"{advice.labels.text} They choose no depth: that goes by agreement with the full reranking."
    many, more = queries_to_judge(0.1), queries_to_judge(0.05)
    return (
        "Agreement compares the top 10 under a budget with the same policy's top 10 once everything is scored. It "
        "shows how much of the full reranking a budget keeps. It cannot show whether that reranking helps: a harmful "
        f"reranker agrees with itself as well. Judgments decide: about {many} judged queries show a difference of .10 "
        f"in nDCG@10 between the first stage and the reranking, about {more} one of .05. Add them as qrels and repeat "
        "the command with dataset.split. Without any, label a few documents first: ragtune label, with the options of "
        "this command, asks for those that say most."
    )


def trust(advice: Advice) -> str | None:
    """What choosing the trust has gained; None where it was not chosen."""
    if advice.trust_gain is None:
        return None
    gain = f"{signed(advice.trust_gain)} {advice.measure} in cross-validation, averaged over budgets"
    if advice.trust == TRUST:
        return f"Trust stays at {TRUST:g}: choosing another one by these judgments brings {gain}."
    return f"Trust {advice.trust:g} instead of {TRUST:g} was chosen by these judgments: it brings {gain}."


def money(advice: Advice) -> list[str]:
    """What a month costs: by the reranker's price, else at public list prices."""
    best, full, month = advice.recommended, advice.everything, f"a month at {advice.traffic:,} queries"
    if "usd" in advice.priced:
        costs = [amount("usd", row.cost["usd"] * advice.traffic) for row in (best, full)]
        return [f"Money: {_instead(advice, *costs)} {month}."]
    unknown = f"Money: no price of this reranker is known ({_PRICES})."
    if not advice.list_prices:
        return [unknown]
    listed = "; ".join(
        f"{one.name} {_instead(advice, amount('usd', one.recommended), amount('usd', one.everything))}"
        + (", more since it bills every call" if one.recommended > one.everything else "")
        for one in advice.list_prices
    )
    return [f"{unknown} At public list prices {month}: {listed}."]


def _instead(advice: Advice, recommended: str, everything: str) -> str:
    """Both amounts, or one where everything is what is recommended."""
    if advice.recommended.label == advice.everything.label:
        return everything
    return f"{recommended} instead of {everything}"


_PRICES = "--prices FILE gives one"


def latency(advice: Advice) -> str:
    """How long the model works on a query; without a measured time, how often it is called."""
    rows = advice.recommended, advice.everything
    if "ms" in advice.priced:
        times = [each("ms", row.cost["ms"]) for row in rows]
        return f"Latency: {_instead(advice, *times)}, the model's time a query."
    calls = [f"{row.cost['calls']:.1f}" for row in rows]
    return f"Latency: no time was measured; calls one after the other a query: {_instead(advice, *calls)}."


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
        why = f"only {advice.telling}{of} {queries} have any quality to keep"
    else:
        why = f"all {advice.queries} {queries} say the same of every option"
    needed = advice.queries + advice.missing_queries
    few = f"; of fewer than {FEW} the intervals are themselves uncertain" if needed < FEW else ""
    return f"{why}. At least {needed:,} like these are needed, {advice.missing_queries:,} more{few}"


def quality(advice: Advice) -> str:
    """What that keeps, and for how much."""
    best, full = advice.recommended, advice.everything
    docs = full.cost["docs"]
    if best.label == full.label:
        return (
            f"{advice.measure[:1].upper()}{advice.measure[1:]} is {full.quality:.3f}, for {docs:.1f} documents a query."
        )
    sure = f"and at least {share(best.kept.low)} with {advice.level:.0%} confidence"
    cost = f"for {best.cost['docs']:.1f} of {docs:.1f} documents a query"
    if not advice.judged:
        return f"Its top 10 agrees by {share(best.kept.value)} with its own once everything is scored, {sure}, {cost}."
    reached = f"{best.quality:.3f} of {full.quality:.3f}"
    kept = f"{share(best.kept.value)} of the {advice.measure} of reranking everything ({reached})"
    return f"It keeps {kept}, {sure}, {cost}."


def beside_fixed(advice: Advice) -> str | None:
    """What fixed depth keeps with as many documents; None where it is what is recommended."""
    if advice.same_depth is None:
        return None
    fixed = advice.same_depth
    does = "keeps" if advice.judged else "agrees with reranking everything by"
    return f"Fixed depth at {fixed.cost['docs']:.1f} documents a query {does} {within(fixed.kept)}."


def beside_the_headline(advice: Advice) -> list[str]:
    """What stands below the recommendation, a sentence or two each."""
    said = [limits_of_agreement(advice), quality(advice), beside_fixed(advice), trust(advice)]
    return [one for one in [*said, *money(advice), latency(advice)] if one]


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
    if not advice.questions:
        return f"No cheaper option seems to keep {share(advice.quality)}: more queries are not likely to change this."
    nearest = advice.questions[-1]
    return (
        f"{nearest.option[:1].upper()}{nearest.option[1:]} seems to keep {share(nearest.kept)} for "
        f"{each(advice.unit, nearest.cost)} a query; about {nearest.more_queries:,} {what} more would show whether "
        "it does (with a chance of 80%, if they are like these)."
    )
