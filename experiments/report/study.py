"""The data that tables, figures and the report are made from, for a grid and for compared runs alike."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, ConfigDict, Field, StrictFloat, StrictInt
from pydantic.dataclasses import dataclass as checked

from experiments.evaluate.curves import FloatArray
from experiments.evaluate.record import UNITS
from experiments.report.prices import Prices
from ragtune.core.arguments import check_choice
from ragtune.core.units import DOCS, Unit
from ragtune.core.units import UNITS as ALL

KINDS = ("incumbent", "peer", "ours", "ceiling")
"""Fixed depth; published policies; RAGtune's own; policies that know the answer, which win nothing."""

CHECKED = ConfigDict(extra="forbid", allow_inf_nan=False)
"""How what a configuration says is checked."""

_LISTED = BeforeValidator(lambda value: value if isinstance(value, (list, tuple)) else [value])
"""A single value stands for the list of one."""

Texts = Annotated[Sequence[str], _LISTED]
Amount = Annotated[StrictInt | StrictFloat, Field(gt=0)]
Amounts = Annotated[Sequence[Amount], Field(min_length=1), _LISTED]
NotNegative = Annotated[float, Field(ge=0)]

FINAL = "final"
"""The one column of a study that compares runs."""


def column_of(budget: float) -> str:
    """The name of a budget's column: a whole number as it is, another one without zeros that say nothing."""
    short = f"{budget:g}"
    return short if isinstance(budget, float) and float(short) == budget else str(budget)


def file_stem(name: str) -> str:
    """The name of a collection as part of a file name."""
    return re.sub(r"[^\w.-]+", "-", name)


def unit_of(cells: Any) -> Unit:
    """What the budgets of a cells table limit; tables from before budgets in calls do not say, they limit documents.

    Raises:
        ConfigError: if it is no unit.
    """
    return ALL[UNITS.index(check_choice("unit", cells["unit"].iloc[0], UNITS))] if "unit" in cells else DOCS


@dataclass(frozen=True)
class Policy:
    """A policy: its name in files, its label in tables and figures, and its kind, one of :data:`KINDS`."""

    name: str
    label: str
    kind: str


@dataclass(frozen=True)
class Cell:
    """Results of one policy under one budget for the q judged queries of a collection.

    Attributes:
        values: shape (q, m), the measures.
        docs, calls, expanded: shape (q,), charged documents and calls, and documents added to the pool.
        ineligible: shape (q,), neighbours that an expander found and the reranker cannot score.
        stops: why each query stopped.
        recorded: shape (q, u - 2), charged in each of ``UNITS`` but documents and calls, as the reranker counts it, 0
            where it does not.
        decisions: by query id, what was reranked when and why (see ``decisions.py``); only where asked for.
        warnings: counts of the ids that parts of the collection or its recorded inputs lack, by what they are.
    """

    values: FloatArray
    docs: NDArray[np.int64]
    calls: NDArray[np.int64]
    expanded: NDArray[np.int64]
    ineligible: NDArray[np.int64]
    stops: Sequence[str]
    recorded: FloatArray
    decisions: Mapping[str, Any] = field(default_factory=dict)
    warnings: Mapping[str, int] = field(default_factory=dict)

    def in_unit(self, unit: Unit) -> FloatArray:
        """What each query was charged in a unit, shape (q,)."""
        amounts: FloatArray = self.charged[:, UNITS.index(unit.name)]
        return amounts

    @property
    def charged(self) -> FloatArray:
        """What each query was charged, shape (q, u), in each of ``UNITS``."""
        return np.column_stack([self.docs, self.calls, self.recorded])


@dataclass(frozen=True)
class Line:
    """Quality against cost of one policy.

    Attributes:
        allowed: shape (s,), amount allowed at each point, in the study's unit.
        spent: shape (s,), mean amount charged there, in that unit.
        mean, low, high: shape (s, m), with the bootstrap interval.
        costs: shape (s, u), mean charged there in each of ``UNITS``.
        steps: whether the curve keeps its height until the next point, as a run does between two batches. Otherwise
            straight lines join the points, as between budgets that were replayed one by one.
    """

    allowed: FloatArray
    spent: FloatArray
    mean: FloatArray
    low: FloatArray
    high: FloatArray
    costs: FloatArray
    steps: bool = False


@dataclass(frozen=True)
class Collection:
    """Everything measured on one collection.

    Attributes:
        name: name of the collection with its first stage and reranker.
        queries: ids of the judged queries.
        query_texts, doc_texts: texts that the report shows; empty where it must not show any.
        grades: judgments by query and document, of the documents in decisions; empty where they are not at hand.
        cells: cells by policy name and column.
        lines: lines by policy name, with a point for each column or, of a run, for each step.
        target: mean quality, shape (m,), that "95% and 99% of full quality" refer to.
        target_spent: mean amount that the target costs, in the study's unit.
        start: mean quality of the reference before anything is reranked, shape (m,); for fixed depth that is the order
            of the first stage or, of several, their fused order. None where it is not known.
        dataset: name of the test collection, which pairs of first stage and reranker over the same queries share.
        group: what it is left out with, see :class:`Choice`, and counts once with in the mean of a claim.
        plain: name of the collection that is this one without its signals; empty where it has none.
        whole_curves: curves by policy name that begin at no cost, of fixed depth at every depth; empty where the lines
            are all that is known.
    """

    name: str
    queries: Sequence[str]
    query_texts: Mapping[str, str]
    doc_texts: Mapping[str, str]
    grades: Mapping[str, Mapping[str, int]]
    cells: Mapping[tuple[str, str], Cell]
    lines: Mapping[str, Line]
    target: FloatArray
    target_spent: float
    start: FloatArray | None = None
    dataset: str = ""
    group: str = ""
    plain: str = ""
    whole_curves: Mapping[str, Line] = field(default_factory=dict)

    @property
    def curves(self) -> Mapping[str, Line]:
        """By policy name, what areas, costs to a quality and pictures are made of."""
        return self.whole_curves or self.lines


@checked(frozen=True, config=CHECKED)
class Claim:
    """What a study is to show: on every collection, a policy is at most ``margin`` below others, in the headline.

    Attributes:
        name: the claim, in words.
        policy: name of the policy that it is about.
        against: names of the policies that it is held against.
        budgets: what the policy may spend; budgets of the study.
        depth: budget of the others: the same (``same``), as many as the policy was charged on average, on the
            line between two budgets (``spent``), every smaller budget (``fewer``), or one of the study's budgets.
        margin: how far below the others the mean may be, >= 0.
        ahead: share of the budgets, in (0, 1], at which the policy has to be significantly above each of the others;
            None asks for no significance.
        collections: which collections, as shell patterns of their names.
        plain: the others do without the signals of the collection; only collections that have some count.
    """

    name: str
    policy: str
    against: Texts
    budgets: Amounts
    depth: Amount | str = "same"
    margin: NotNegative = 0.0
    ahead: Annotated[float, Field(gt=0, le=1)] | None = None
    collections: Texts = ("*",)
    plain: bool = False

    def is_about(self, name: str, plain: str) -> bool:
        """Whether it is about a collection, by its name and that of the one without its signals."""
        return any(fnmatchcase(name, pattern) for pattern in self.collections) and bool(plain or not self.plain)


EXAMPLE_PRICES = Prices(usd_per_search_unit=0.002, ms_per_call=20.0, ms_per_doc=5.0)
"""What the report's dollars and milliseconds go by where a study names no prices."""


@checked(frozen=True, config=CHECKED)
class Choice:
    """How one of the policies of kind ``ours`` is chosen: each group of collections by what all others say.

    Attributes:
        default: name of the policy that is kept unless another one is better.
        budgets: those at which policies are compared, each counting the same.
    """

    default: str
    budgets: Amounts


@dataclass(frozen=True)
class Study:
    """Results of policies on collections.

    Attributes:
        name: name of the study.
        question: what it asks, in words; empty where it has no question of its own.
        command: the command that makes it again.
        git_sha: commit of the code.
        collections: at least one collection.
        policies: all policies, with the reference.
        reference: name of the policy that the others are tested against.
        columns: budgets as text, or the one column :data:`FINAL` where runs are compared.
        measures: names; the first is the headline.
        target_label: what ``Collection.target`` is.
        traced_column: the column whose decisions can be looked at.
        resamples, permutations, level, seed: settings of the intervals and tests.
        notes: where the compared runs come from, one line each, Markdown.
        prices: what the report's dollars and milliseconds go by.
        claims: what the study is to show.
        choice: how one of its policies is chosen; None where none is.
        unit: what the budgets limit and the lines' costs count.
        is_grid: whether the columns are budgets, a policy's being one family of Holm's correction; otherwise the study
            compares runs, in a single column, which is one.
    """

    name: str
    command: str
    git_sha: str
    collections: Sequence[Collection]
    policies: Sequence[Policy]
    reference: str
    columns: Sequence[str]
    measures: Sequence[str]
    target_label: str
    traced_column: str
    resamples: int
    permutations: int
    level: float
    seed: int
    notes: Sequence[str] = ()
    prices: Prices = EXAMPLE_PRICES
    claims: Sequence[Claim] = ()
    choice: Choice | None = None
    unit: Unit = DOCS
    is_grid: bool = True
    question: str = ""

    @property
    def title(self) -> str:
        """The heading of its pages."""
        return self.question or self.name

    @property
    def noun(self) -> str:
        """The unit in words."""
        return self.unit.noun

    @cached_property
    def by_name(self) -> Mapping[str, Policy]:
        """Policies by name."""
        return {policy.name: policy for policy in self.policies}
