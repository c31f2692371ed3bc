"""What a study measured: the data of its tables, figures and report."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, StrictFloat, StrictInt
from pydantic.dataclasses import dataclass as checked

from experiments.evaluate.curves import FloatArray
from experiments.evaluate.record import UNITS
from ragtune.core.plain import html_table
from ragtune.core.units import DOCS, Unit
from ragtune.core.units import UNITS as ALL

CHECKED = ConfigDict(extra="forbid", allow_inf_nan=False)

_LISTED = BeforeValidator(lambda value: value if isinstance(value, (list, tuple)) else [value])
"""A single value stands for the list of one."""

Texts = Annotated[Sequence[str], _LISTED]
Amount = Annotated[StrictInt | StrictFloat, Field(gt=0)]
Amounts = Annotated[Sequence[Amount], Field(min_length=1), _LISTED]
NotNegative = Annotated[float, Field(ge=0)]

FINAL = "final"


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
class StudyPolicy:
    """A policy; its kind is ``baseline`` (fixed depth), ``peer`` (published), ``ours`` or ``ceiling`` (an oracle)."""

    name: str
    label: str
    kind: str


@dataclass(frozen=True)
class Cell:
    """Results of one policy under one budget for the q judged queries of a collection."""

    values: FloatArray  # shape (q, m), the measures
    charged: FloatArray  # shape (q, u), in each of UNITS, 0 where the reranker does not count them
    stops: Sequence[str]
    warnings: Mapping[str, int] = field(default_factory=dict)  # numbers of missing ids, by what they are

    def in_unit(self, unit: Unit) -> FloatArray:
        amounts: FloatArray = self.charged[:, UNITS.index(unit.name)]
        return amounts


@dataclass(frozen=True)
class Line:
    """Quality against cost of one policy at s points."""

    allowed: FloatArray  # shape (s,), in the study's unit
    spent: FloatArray  # shape (s,), mean amount charged
    mean: FloatArray  # shape (s, m), as its ends
    low: FloatArray
    high: FloatArray
    costs: FloatArray  # shape (s, u), mean charged in each of UNITS
    steps: bool = False  # whether it keeps its height until the next point, as in a run


@dataclass(frozen=True)
class StudyCollection:
    """A collection with its first stage and reranker, and everything measured on it."""

    name: str
    queries: Sequence[str]
    cells: Mapping[tuple[str, str], Cell]
    curves: Mapping[str, Line]  # by policy name
    target: FloatArray  # mean quality, shape (m,), that "95% of full quality" refers to
    target_spent: float  # its mean cost
    start: FloatArray | None = None  # mean of the reference before anything is reranked, shape (m,)
    dataset: str = ""  # collections over the same queries share it
    group: str = ""  # the test collection, which its pairs share
    family: str = ""  # of test collections: is left out together, and counts once in every mean
    plain: str = ""  # name of the collection that is this one without its signals


@checked(frozen=True, config=CHECKED)
class Claim:
    """On every collection, a policy is at most ``margin`` below the others in the headline measure."""

    name: str
    policy: str
    against: Texts
    budgets: Amounts
    depth: Amount | str = "same"  # of the others: same, spent (as charged), fewer (every smaller budget), or one
    margin: NotNegative = 0.0
    collections: Texts = ("*",)  # shell patterns of names
    plain: bool = False  # the others do without the signals of the collection

    def is_about(self, name: str, plain: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self.collections) and bool(plain or not self.plain)


@checked(frozen=True, config=CHECKED)
class PolicyChoice:
    """How one of the policies of kind ``ours`` is chosen, at which budgets; ``default`` stays unless one is better."""

    default: str
    budgets: Amounts


@dataclass(frozen=True)
class Study:
    """Results of policies on collections."""

    name: str
    command: str
    git_sha: str
    collections: Sequence[StudyCollection]
    policies: Sequence[StudyPolicy]
    reference: str  # the policy that the others are tested against
    columns: Sequence[str]  # budgets as text, or FINAL where runs are compared
    measures: Sequence[str]  # the first is the headline
    target_label: str  # what ``StudyCollection.target`` is
    resamples: int
    permutations: int
    level: float
    seed: int
    notes: Sequence[str] = ()  # one line each, Markdown
    claims: Sequence[Claim] = ()
    choice: PolicyChoice | None = None
    unit: Unit = DOCS  # what the budgets limit and the lines' costs count
    is_grid: bool = True  # whether the columns are budgets
    question: str = ""

    def __repr__(self) -> str:
        return f"Study({self.title!r}: {len(self.policies)} policies, {len(self.collections)} collections)"

    def _repr_html_(self) -> str:
        """The headline measure of each policy at the last budget, for notebooks."""
        rows: list[dict[str, str]] = []
        for policy in self.policies:
            cells = {one.name: one.cells.get((policy.name, self.columns[-1])) for one in self.collections}
            means = {name: f"{cell.values[:, 0].mean():.4f}" if cell else "" for name, cell in cells.items()}
            rows.append({f"{self.measures[0]}, {self.columns[-1]}": policy.label, **means})
        return html_table(repr(self), rows)

    @property
    def title(self) -> str:
        return self.question or self.name

    @property
    def noun(self) -> str:
        return self.unit.noun

    @property
    def baselines(self) -> Sequence[StudyPolicy]:
        """The reference, and in a grid the other policies of kind ``baseline``."""
        others = [p for p in self.policies if p.kind == "baseline" and p.name != self.reference and self.is_grid]
        return [self.by_name[self.reference], *others]

    @cached_property
    def by_name(self) -> Mapping[str, StudyPolicy]:
        return {policy.name: policy for policy in self.policies}
