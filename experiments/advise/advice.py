"""The advice as data: the choice, what it keeps and saves, what more would buy, and how sure all this is."""

from __future__ import annotations

import math

from pydantic import BaseModel, ConfigDict

from experiments.label.plan import Verdict
from ragtune.core.plain import html_table


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


class SourceAgreement(_Part):
    """Mean rank correlation of the reranker's scores with the first stage, two standard errors either way."""

    correlation: Interval  # without ends where the queries are too few to set the trust
    queries: int


class MeasuredOption(_Part):
    """An option: mean quality, share of the target's quality kept with its interval, and mean cost a query by unit."""

    label: str
    policy: str
    batch_size: int | None
    budget: int
    trust: float | None
    weight: float | None
    quality: float
    kept: Interval
    cost: dict[str, float]


class ListPrice(_Part):
    """Dollars a month at a service's public list price, of the advice and of reranking everything in one call."""

    name: str
    read: str
    source: str
    secondary: bool
    recommended: float
    everything: float


class Rung(_Part):
    """The cheapest option that is shown to keep a share (``quality``), beside the recommended one."""

    quality: float
    option: str
    cost: float
    saved: float  # share of the cost of reranking everything
    gain: Interval | None  # None of the recommended option itself
    is_next: bool  # the cheapest that costs more than the recommended option


class OpenQuestion(_Part):
    """An option, its mean cost, the share that it seems to keep, and the further queries that would show it."""

    option: str
    cost: float
    kept: float
    more_queries: int


class Advice(_Part):
    """Everything on the page, in the terminal and in ``advice.json``."""

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
    trust_gain: Interval | None  # over the default, in cross-validation; None if it was not chosen
    source_agreement: SourceAgreement | None  # what set the trust without judgments; None if it was not looked at
    weight: float  # of the first stage in interpolated fixed depth
    weight_gain: Interval | None  # the same
    recommended: MeasuredOption
    everything: MeasuredOption
    first_stage: MeasuredOption
    own_order: float | None  # the measure at 0 documents; None of the baselines and without judgments
    target: MeasuredOption  # full reranking, or the first stage if that is at least as good
    same_depth: list[MeasuredOption]  # the other baselines with at least as many documents as the recommended option
    saved_a_month: dict[str, float]
    ladder: list[Rung]
    question: OpenQuestion | None
    options: list[MeasuredOption]
    warnings: list[str]
    command: str
    git_sha: str
    labels: Verdict | None = None
    use: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"Advice({self.recommended.label} for {self.dataset})"

    def _repr_html_(self) -> str:
        """The recommended option beside its alternatives, for notebooks."""
        shown = [self.recommended, self.everything, self.first_stage]
        rows = [
            {"option": one.label, self.measure: f"{one.quality:.4f}", "kept": f"{one.kept.value:.1%}"} for one in shown
        ]
        return html_table(repr(self), rows)

    @property
    def is_worse(self) -> bool:
        """Whether reranking everything is no better than the first stage alone, which is the target then."""
        return self.target.label == self.first_stage.label

    @property
    def harms_by_labels(self) -> bool:
        """Whether the labels of ragtune label say that the first stage's order is better."""
        return self.labels is not None and self.labels.decision.verdict == "harms"

    @property
    def shows_no_use(self) -> bool:
        """Whether, without judgments, the scores do not agree with the first stage and so are not trusted at all."""
        return self.source_agreement is not None and self.trust == 0.0

    @property
    def is_decided_before(self) -> bool:
        """Whether reranking is advised against whatever a budget keeps of it."""
        return self.harms_by_labels or self.shows_no_use

    @property
    def keeps_first_stage(self) -> bool:
        """Whether the first stage is kept because reranking harms, or nothing is shown to be better."""
        return not self.recommended.budget and (self.is_worse or self.is_decided_before)
