"""What a study measured: the data of its tables, figures and report."""

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
from ragtune.core.units import DOCS, Unit
from ragtune.core.units import UNITS as ALL

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
    """What the budgets of a cells table limit: documents in tables of older versions, which have no such column."""
    return ALL[UNITS.index(cells["unit"].iloc[0])] if "unit" in cells else DOCS


@dataclass(frozen=True)
class Policy:
    """A policy; its kind is ``incumbent`` (fixed depth), ``peer`` (published), ``ours`` or ``ceiling`` (an oracle)."""

    name: str
    label: str
    kind: str


@dataclass(frozen=True)
class Cell:
    """Results of one policy under one budget for the q judged queries of a collection.

    Attributes:
        values: shape (q, m), the measures.
        charged: shape (q, u), in each of ``UNITS``, 0 where the reranker does not count them.
        expanded: shape (q,), documents added to the pool.
        ineligible: shape (q,), neighbours that an expander found and the reranker cannot score.
        decisions: by query id, see ``decisions.py``; empty if they were not asked for.
        warnings: numbers of missing ids, by what they are.
    """

    values: FloatArray
    charged: FloatArray
    expanded: NDArray[np.int64]
    ineligible: NDArray[np.int64]
    stops: Sequence[str]
    decisions: Mapping[str, Any] = field(default_factory=dict)
    warnings: Mapping[str, int] = field(default_factory=dict)

    def in_unit(self, unit: Unit) -> FloatArray:
        amounts: FloatArray = self.charged[:, UNITS.index(unit.name)]
        return amounts


@dataclass(frozen=True)
class Line:
    """Quality against cost of one policy at s points.

    Attributes:
        allowed, spent: shape (s,), amount allowed and mean amount charged, in the study's unit.
        mean, low, high: shape (s, m), with the bootstrap interval.
        costs: shape (s, u), mean charged in each of ``UNITS``.
        steps: whether the curve keeps its height until the next point, as in a run. Otherwise lines join the points.
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
    """A collection with its first stage and reranker, and everything measured on it.

    Attributes:
        query_texts, doc_texts, grades: what the report shows; empty where it must not show any.
        cells: by policy name and column.
        curves: by policy name: of a grid from 0 to the largest budget, of a run after each batch.
        target: mean quality, shape (m,), that "95% of full quality" refers to; ``target_spent`` is its mean cost.
        start: mean quality of the reference before anything is reranked, shape (m,); None if unknown.
        dataset: name of the test collection. Collections over the same queries share it.
        group: is left out together, and counts once in the mean of a claim.
        plain: name of the collection that is this one without its signals, or empty.
    """

    name: str
    queries: Sequence[str]
    query_texts: Mapping[str, str]
    doc_texts: Mapping[str, str]
    grades: Mapping[str, Mapping[str, int]]
    cells: Mapping[tuple[str, str], Cell]
    curves: Mapping[str, Line]
    target: FloatArray
    target_spent: float
    start: FloatArray | None = None
    dataset: str = ""
    group: str = ""
    plain: str = ""


@checked(frozen=True, config=CHECKED)
class Claim:
    """On every collection, a policy is at most ``margin`` below the others in the headline measure.

    Attributes:
        depth: budget of the others: ``same``, ``spent`` (what the policy was charged on average, between two budgets),
            ``fewer`` (every smaller budget), or one of the study's budgets.
        ahead: share of the budgets, in (0, 1], at which the policy has to be significantly above each of the others;
            None asks for no significance.
        collections: shell patterns of names.
        plain: the others do without the signals of the collection; only collections with signals count.
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
        return any(fnmatchcase(name, pattern) for pattern in self.collections) and bool(plain or not self.plain)


@checked(frozen=True, config=CHECKED)
class Choice:
    """How one of the policies of kind ``ours`` is chosen, at which budgets; ``default`` stays unless one is better."""

    default: str
    budgets: Amounts


@dataclass(frozen=True)
class Study:
    """Results of policies on collections.

    Attributes:
        reference: name of the policy that the others are tested against.
        columns: budgets as text, or the one column :data:`FINAL` where runs are compared.
        measures: names; the first is the headline.
        target_label: what ``Collection.target`` is.
        traced_column: the column whose decisions can be looked at.
        notes: warnings and sources of runs, one line each, Markdown.
        unit: what the budgets limit and the lines' costs count.
        is_grid: whether the columns are budgets; otherwise the study compares runs in a single column.
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
    claims: Sequence[Claim] = ()
    choice: Choice | None = None
    unit: Unit = DOCS
    is_grid: bool = True
    question: str = ""

    @property
    def title(self) -> str:
        return self.question or self.name

    @property
    def noun(self) -> str:
        return self.unit.noun

    @cached_property
    def by_name(self) -> Mapping[str, Policy]:
        return {policy.name: policy for policy in self.policies}
