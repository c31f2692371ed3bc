"""The advice as data: what was chosen, what it keeps and saves, what more would buy, and how sure all this is."""

from __future__ import annotations

import math

from pydantic import BaseModel, ConfigDict

from experiments.label.verdict import Verdict


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class Interval(_Part):
    """A figure with the ends of its interval; None where there are too few queries."""

    value: float
    low: float | None
    high: float | None

    @classmethod
    def of(cls, value: float, low: float, high: float) -> Interval:
        """The same, where unknown ends are NaN."""
        return cls(value=value, low=None if math.isnan(low) else low, high=None if math.isnan(high) else high)


class Row(_Part):
    """An option: mean quality, share of the target's quality kept with its interval, and mean cost a query by unit."""

    label: str
    policy: str
    batch_size: int | None
    budget: int
    trust: float | None
    quality: float
    kept: Interval
    cost: dict[str, float]


class ListPrice(_Part):
    """What a month costs at a service's public list price.

    Attributes:
        name: of the service.
        read, source: when the price was read, and where.
        secondary: whether that page is a secondary source, not the vendor's own.
        recommended, everything: dollars a month, of the advice and of reranking everything in one call.
    """

    name: str
    read: str
    source: str
    secondary: bool
    recommended: float
    everything: float


class Rung(_Part):
    """The cheapest option that is shown to keep a share, and what it buys beside the recommended one.

    Attributes:
        quality: the share; the rung stands for all smaller shares with the same choice too.
        option: its label.
        cost: of a query, in the unit that counts.
        saved: share of the cost of reranking everything.
        gain: difference of the headline measure from the recommended option; None of that option itself.
        is_next: whether it is the next step: the cheapest rung that costs more than what is recommended.
    """

    quality: float
    option: str
    cost: float
    saved: float
    gain: Interval | None
    is_next: bool


class Question(_Part):
    """An option, its mean cost, what it seems to keep, and the further queries that would show it."""

    option: str
    cost: float
    kept: float
    more_queries: int


class Advice(_Part):
    """All that the page, the terminal and ``advice.json`` say; see the classes of the parts.

    Attributes:
        target: the row whose quality the shares refer to: reranking everything, or the first stage where that is at
            least as good. Then only what is shown to be better than it is recommended.
        list_prices: of services, where no price of this reranker is known.
        trust, trust_gain: of the policies with a posterior, and what choosing it gained beside the default in
            cross-validation; None where it was not chosen.
        own_order: mean of the measure at 0 documents by the order of the recommended policy, which compares first-stage
            scores and texts; None of fixed depth, which begins with the first stage's order, and without judgments.
        held_out: share kept by cross-fitting: chosen on nine tenths of the queries, measured on the rest in turn.
        labels: what the labels of ragtune label decide; None without them.
        use: what to copy, by where it goes (see ``snippets``).
    """

    dataset: str
    queries: int
    judged: bool
    measure: str
    quality: float
    unit: str
    level: float
    traffic: int
    pool: float
    prices: dict[str, float]
    priced: list[str]
    list_prices: list[ListPrice]
    trust: float
    trust_gain: Interval | None
    recommended: Row
    everything: Row
    first_stage: Row
    own_order: float | None
    target: Row
    same_depth: Row | None
    saved_a_month: dict[str, float]
    ladder: list[Rung]
    question: Question | None
    held_out: Interval
    options: list[Row]
    warnings: list[str]
    command: str
    git_sha: str
    labels: Verdict | None = None
    use: dict[str, str] = {}

    @property
    def is_worse(self) -> bool:
        """Whether reranking everything is no better than the first stage alone, which is the target then."""
        return self.target.label == self.first_stage.label

    @property
    def harms_by_labels(self) -> bool:
        """Whether the labels of ragtune label say that the first stage's order is better."""
        return self.labels is not None and self.labels.decision.verdict == "harms"
