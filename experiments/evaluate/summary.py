"""The summary of a run: what the terminal, MLflow and comparisons read."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from experiments.datasets.dataset import Dataset
from experiments.evaluate.curves import Curve
from experiments.evaluate.outcomes import Outcomes, warnings_of
from experiments.evaluate.record import told
from ragtune.core import units
from ragtune.core.arrays import FloatArray
from ragtune.core.plain import html_table
from ragtune.data.join import Join

Costs = dict[str, int | float]
"""Amounts by unit, see :data:`experiments.evaluate.record.UNITS`."""


class _Part(BaseModel):
    """A part of the summary: it is read from files too, in which later versions may have written more."""

    model_config = ConfigDict(extra="allow", frozen=True)


class Bill(_Part):
    """A cost: what the policy would have paid (``charged``), and what the run paid (``actual``)."""

    charged: Costs
    actual: Costs


class ContextSize(_Part):
    """Mean documents and tokens of the assembled contexts."""

    docs: float
    tokens: float


class Overruns(_Part):
    """Queries past their time limit, and by how many milliseconds: on average over those, and at most."""

    queries: int
    mean: float
    max: float


class Failures(_Part):
    """What failed in a run; it is ``failed`` if the share is larger than the configuration allows."""

    batches_sent: int
    batches_failed: int
    queries_given_up: int  # their policy failed, or a reranker too often
    share: float  # of failed batches or of given up queries, whichever is larger
    went_on: dict[str, int] = Field(default_factory=dict)  # queries without a component that failed, by that
    first_error: str | None
    status: Literal["finished", "failed"]


class Trust(_Part):
    """What ``estimator.trust=auto`` has found: the trust, and the mean correlation of reranker and first stage."""

    value: float
    correlation: float
    error: float  # standard error of the mean
    queries: int  # of the first pass
    docs_per_query: int  # that the first pass scored, at most; `cost` has them, `cost_per_query` has not


class Rewrites(_Part):
    """Searched rewrites a query, and the documents that a rewrite found and no search before it."""

    per_query: float
    new_docs_per_rewrite: float


class Agreement(_Part):
    """How alike two rankings are on average, without judgments."""

    overlap: float  # share of the top 10 that both have
    rbo: float  # rank-biased overlap of the top 10, p = 0.9
    tau: float | None = None  # Kendall's, of the other's top 10; None where the one has not all of it


class Comparison(_Part):
    """A run against a baseline on the same queries, by measure: the baseline's means, and the run less the baseline."""

    docs_per_query: float
    measures: dict[str, float]
    difference: dict[str, float]
    interval: dict[str, tuple[float, float]]
    p: dict[str, float]
    p_holm: dict[str, float]  # corrected for the number of baselines
    agreement: Agreement


class Figures(_Part):
    """What was measured; all of it is deterministic."""

    dataset: str
    queries: int  # the judged ones
    queries_replayed: int
    joins: list[Join] = []
    warnings: dict[str, int]
    measures: Annotated[dict[str, float], Field(min_length=1)]  # the first is the headline
    interval: dict[str, tuple[float, float]]
    first_stage: dict[str, float] = {}
    cost: Bill
    cost_per_query: Bill
    context_per_query: ContextSize
    rewrites: Rewrites | None = None
    aucc: float  # mean height of the headline's curve
    docs_to_95pct: int | None  # fewest documents a query at which the curve reaches that share of its last value
    docs_to_99pct: int | None
    stop_reasons: dict[str, int]
    tied_share: float | None = None  # of the scores that decide a top 10; None where nothing was scored
    dropped_docs: int
    latency_overrun_ms: Overruns
    failures: Failures


class Summary(Figures):
    """The content of ``summary.json``: the figures, and where they come from."""

    baselines: dict[str, Comparison] | None = None  # None where they would cost
    trust: Trust | None = None  # None where the configuration says it
    policy: str
    overrides: list[str]
    documents: int
    corpus_digest: str
    seed: int
    tags: dict[str, str]
    fingerprint: str  # this and the next two: see experiments.replay.inputs.identity
    settings: str
    inputs: dict[str, str]
    wall_s: float
    mlflow_run_id: str | None

    def __repr__(self) -> str:
        name, value = next(iter(self.measures.items()))
        docs = self.cost_per_query.charged["docs"]
        return f"Summary({self.policy} on {self.dataset}: {name} {value:.4f}, {docs:.1f} documents a query)"

    def _repr_html_(self) -> str:
        """The quality of the run and of the baselines, for notebooks."""
        means = {self.policy: self.measures} | {name: one.measures for name, one in (self.baselines or {}).items()}
        rows = [{"policy": name} | {key: f"{mean:.4f}" for key, mean in own.items()} for name, own in means.items()]
        return html_table(repr(self), rows)

    @property
    def has_failed(self) -> bool:
        """Whether more failed than the configuration allows."""
        return self.failures.status == "failed"

    @property
    def headline(self) -> float:
        return next(iter(self.measures.values()))

    def plain(self) -> dict[str, Any]:
        """What ``summary.json`` holds: plain data, without baselines, trust and rewrites where there are none."""
        data, may_lack = self.model_dump(mode="json"), ("baselines", "rewrites", "trust")
        return {name: value for name, value in data.items() if value is not None or name not in may_lack}

    def tracked_as(self, run_id: str | None) -> Summary:
        """The summary with the id of its tracked run."""
        return self.model_copy(update={"mlflow_run_id": run_id})


def summarize(
    dataset: Dataset,
    outcomes: Outcomes,
    curve: Curve,
    *,
    max_failed_share: float,
    compares_apart: bool = False,
    beforehand: tuple[FloatArray | float, FloatArray | float] = (0.0, 0.0),
) -> Figures:
    """Compute the figures of a run; ``beforehand``: what was charged, and paid, before the first query."""
    charged, actual = (outcomes.column(kind).sum(axis=0) for kind in ("charged", "actual"))
    queries = len(outcomes)
    _, dropped, *context = outcomes.column("sizes").sum(axis=0).tolist()
    tied, deciding = outcomes.column("ties").sum(axis=0).tolist()
    final = float(curve.mean[-1, 0])
    return Figures(
        dataset=dataset.name,
        queries=len(dataset.judged),
        queries_replayed=queries,
        joins=list(dataset.joins),
        warnings={**dataset.warnings, **warnings_of(outcomes, compares_apart=compares_apart), **_all_zero(curve)},
        measures=dict(zip(curve.measures, curve.mean[-1].tolist(), strict=True)),
        interval={name: (float(curve.low[-1, j]), float(curve.high[-1, j])) for j, name in enumerate(curve.measures)},
        first_stage=dict(zip(curve.measures, curve.first_stage.tolist(), strict=True)),
        cost=Bill(charged=_costs(charged + beforehand[0]), actual=_costs(actual + beforehand[1])),
        cost_per_query=Bill(charged=_costs(charged / queries), actual=_costs(actual / queries)),
        context_per_query=ContextSize(docs=context[0] / queries, tokens=context[1] / queries),
        rewrites=_rewrites(outcomes),
        aucc=curve.area(),
        docs_to_95pct=curve.docs_to(0.95, final),
        docs_to_99pct=curve.docs_to(0.99, final),
        stop_reasons=dict(sorted(Counter(outcome.stop_reason for outcome in outcomes).items())),
        tied_share=tied / deciding if deciding else None,
        dropped_docs=dropped,
        latency_overrun_ms=_overruns(outcomes.column("overrun_ms")),
        failures=failures_of(outcomes, max_failed_share),
    )


def _all_zero(curve: Curve) -> dict[str, int]:
    if curve.per_query.any():
        return {}
    asks = "do the judgments belong to these queries and documents?"
    return {f"queries, which is all of them, rank nothing that is judged relevant: {asks}": len(curve.per_query)}


def failures_of(outcomes: Outcomes, max_share: float) -> Failures:
    """What failed in a run, and whether so much did that the run itself has."""
    sent, failed = outcomes.column("batches").sum(axis=0).tolist()
    given_up = sum(outcome.is_given_up for outcome in outcomes)
    share = max(failed / sent if sent else 0.0, given_up / len(outcomes))
    errors = outcomes.noted("first_error")
    went_on = Counter(name for names in outcomes.noted("mishaps") for name in names)
    return Failures(
        went_on={name.removesuffix("_failed"): count for name, count in sorted(went_on.items())},
        batches_sent=sent,
        batches_failed=failed,
        queries_given_up=given_up,
        share=share,
        first_error=errors[0] if errors else None,
        status="failed" if share > max_share else "finished",
    )


def _rewrites(outcomes: Outcomes) -> Rewrites | None:
    asked, searched, new = outcomes.column("rewrites").sum(axis=0).tolist()
    if not asked:
        return None
    return Rewrites(per_query=searched / len(outcomes), new_docs_per_rewrite=new / searched if searched else 0.0)


def _overruns(overruns: FloatArray) -> Overruns:
    late = overruns[overruns > 0.0]
    return Overruns(queries=len(late), mean=float(late.mean()) if len(late) else 0.0, max=float(late.max(initial=0.0)))


def _costs(values: FloatArray) -> Costs:
    known = {units.UNITS[i]: float(values[i]) for i in told(values)}
    return {unit.name: int(value) if unit.is_count and value.is_integer() else value for unit, value in known.items()}
