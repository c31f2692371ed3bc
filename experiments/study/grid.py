"""The grid of a study: collections, policies and budgets, and what is asked of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from string import Template
from typing import Any, TypeVar

from experiments.config.compose import compose
from experiments.config.options import check_options
from experiments.report.study import KINDS, Choice, Claim, Policy, Prices
from experiments.study.grid_checks import (
    is_count,
    require_budgets,
    require_claim,
    require_known,
    require_measures,
    require_names,
    require_prices,
)
from ragtune.core.arguments import check_choice, check_count, did_you_mean
from ragtune.core.errors import ConfigError
from ragtune.core.units import BY_SHORT, DOCS, Unit

COMMON = ("tracking=none", "executor=inline", "budget=unlimited")
"""Overrides of every cell: the study itself is the record, and a policy meets no limit but the budget under test."""


Asked = TypeVar("Asked", Claim, Choice)


@dataclass(frozen=True)
class CollectionEntry:
    """A collection with its first stage and reranker, as overrides of ``run.py``.

    Attributes:
        name: name of the pair.
        overrides: of ``run.py``.
        variables: what policies write as ``$name``.
        group: what is left out together when a policy is chosen, and counts once; by default the pair's own name.
        plain: name of the pair that is this one without its signals.
    """

    name: str
    overrides: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    group: str = ""
    plain: str = ""


@dataclass(frozen=True)
class PolicyEntry:
    """A policy, as overrides of ``run.py``; ``$name`` in them stands for a variable of the collection.

    Attributes:
        name: name of the policy. A policy that is a preset and no more has the preset's name, and needs no overrides.
        kind: one of :data:`experiments.report.study.KINDS`.
        label: name in tables and figures; by default the name, with blanks for underscores.
        overrides: of ``run.py``; by default ``experiment=NAME``.
    """

    name: str
    kind: str
    label: str = ""
    overrides: Sequence[str] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", self.label or str(self.name).replace("_", " "))

    @property
    def choices(self) -> Sequence[str]:
        """The overrides that make the policy."""
        return [f"experiment={self.name}"] if self.overrides is None else self.overrides

    @property
    def policy(self) -> Policy:
        """Name, label and kind of the policy."""
        return Policy(self.name, self.label, self.kind)


@dataclass(frozen=True)
class TraceChoice:
    """The policies, and the budget, whose decisions the report shows query by query."""

    budget: int
    policies: Sequence[str] = ()


@dataclass(frozen=True)
class Grid:
    """A frontier's configuration; see the comments in ``conf/frontier/demo.yaml``.

    Attributes:
        question: what the study asks, in words; the heading of its tables and of the overview.
        unit: what the budgets limit, by its short name (``ragtune.core.units``); the report knows documents only.

    Raises:
        ConfigError: on an entry that is missing, unknown, repeated or out of range.
    """

    name: str
    collections: Sequence[CollectionEntry]
    policies: Sequence[PolicyEntry]
    budgets: Sequence[float]
    measures: Sequence[str]
    traces: TraceChoice
    question: str = ""
    resamples: int = 1000
    permutations: int = 9999
    level: float = 0.95
    seed: int = 0
    jobs: int = -1
    queries: int | None = None
    texts: bool = True
    figures: bool = True
    report: bool = True
    unit: str = "docs"
    prices: Prices = field(default_factory=Prices)
    claims: Sequence[Claim] = ()
    choice: Choice | None = None

    def __post_init__(self) -> None:
        require_names("name", [self.name])
        for what, entries in (("collections", self.collections), ("policies", self.policies)):
            require_names(what, [entry.name for entry in entries])
        require_budgets(self.budgets, BY_SHORT[check_choice("unit", self.unit, BY_SHORT)])
        _require_policies(self.policies)
        require_measures(self.measures)
        for what in ("resamples", "permutations"):
            if not is_count(getattr(self, what)):
                raise ConfigError(f"{what}={getattr(self, what)!r}: allowed is an integer >= 1")
        if not isinstance(self.level, float) or not 0 < self.level < 1:
            raise ConfigError(f"level={self.level!r}: allowed is a number between 0 and 1, e.g. 0.95")
        if self.jobs != -1 and not is_count(self.jobs):
            raise ConfigError(f"jobs={self.jobs!r}: allowed is an integer >= 1, or -1 for one a core")
        for what in ("texts", "figures", "report"):
            if not isinstance(getattr(self, what), bool):
                raise ConfigError(f"{what}={getattr(self, what)!r}: allowed are true, false")
        check_count("seed", self.seed)
        if self.queries is not None and not is_count(self.queries):
            raise ConfigError(f"queries={self.queries!r}: allowed is an integer >= 1, or null for all")
        if self.report and self.limited is not DOCS:
            raise ConfigError(f"report=true with unit={self.unit}: allowed is report=false, its budgets are documents")
        self._require_traces()
        self._require_questions()
        require_prices(self.prices)

    def _require_traces(self) -> None:
        if self.traces.budget not in self.budgets:
            raise ConfigError(f"traces.budget={self.traces.budget!r}: allowed are the budgets {list(self.budgets)}")
        known = [entry.name for entry in self.policies]
        for name in self.traces.policies:
            if name not in known:
                raise ConfigError(f"traces.policies: unknown policy {name!r}: allowed are {', '.join(known)}")

    def _require_questions(self) -> None:
        if self.claims:
            require_names("claims", [claim.name for claim in self.claims])
        pairs = [entry.name for entry in self.collections]
        for entry in self.collections:
            require_known(f"plain of {entry.name!r}", [entry.plain] if entry.plain else [], pairs)
        for claim in self.claims:
            require_claim(claim, [entry.name for entry in self.policies], self.budgets)
        if self.choice:
            require_known("choice.budgets", self.choice.budgets, self.budgets)
            ours = [entry.name for entry in self.policies if entry.kind == "ours"]
            require_known("choice.default", [self.choice.default], ours)
            if len(self.groups) < 2:
                raise ConfigError(f"choice needs two groups of collections, so that one can be left out: {self.groups}")

    def configuration(self, collection: CollectionEntry, policy: PolicyEntry) -> dict[str, Any]:
        """The configuration of a policy on a collection, over all its judged queries or so many drawn at random.

        Raises:
            ConfigError: as :func:`composed`.
        """
        config = composed(collection, policy, self.seed)
        if self.queries:
            config["dataset"] |= {"sample": {"queries": self.queries, "seed": self.seed}}
        return config

    @property
    def limited(self) -> Unit:
        """What the budgets limit."""
        return BY_SHORT[self.unit]

    @property
    def groups(self) -> list[str]:
        """What can be left out, in order."""
        return list(dict.fromkeys(entry.group or entry.name for entry in self.collections))

    @property
    def incumbent(self) -> PolicyEntry:
        """The policy that all others are tested against."""
        return next(entry for entry in self.policies if entry.kind == "incumbent")

    def only(self, collections: Sequence[str], policies: Sequence[str]) -> Grid:
        """The grid with only the named collections and policies; no names mean all, and the incumbent always stays.

        Claims about a policy that is left out are left out, too, and others are held against those that stay.

        Raises:
            ConfigError: on an unknown name.
        """
        chosen = {self.incumbent.name, *policies} if policies else {entry.name for entry in self.policies}
        kept_policies = _pick("policies", self.policies, chosen)
        names = {entry.name for entry in kept_policies}
        traces = TraceChoice(self.traces.budget, [name for name in self.traces.policies if name in names])
        wanted = set(collections) or {entry.name for entry in self.collections}
        kept_collections = _pick("collections", self.collections, wanted)
        kept_collections = [
            replace(entry, plain=entry.plain if entry.plain in wanted else "") for entry in kept_collections
        ]
        left = [replace(claim, against=[name for name in claim.against if name in names]) for claim in self.claims]
        claims = [claim for claim in left if claim.policy in names and claim.against]
        kept: dict[str, Any] = {"collections": kept_collections, "policies": kept_policies, "traces": traces}
        fewer = replace(self, **kept, claims=claims, choice=None)
        can_choose = self.choice and self.choice.default in names and len(fewer.groups) > 1
        return replace(fewer, choice=self.choice) if can_choose else fewer


def grid_of(raw: Mapping[str, Any]) -> Grid:
    """Make a grid from plain data.

    Raises:
        ConfigError: on an unknown or missing key, or a bad value.
    """
    values = dict(raw)
    for what, kind in (("collections", CollectionEntry), ("policies", PolicyEntry)):
        values[what] = [_made(kind, what, entry) for entry in _entries(what, values.get(what) or [])]
    traces: TraceChoice = _made(TraceChoice, "traces", values.get("traces") or {})
    values["traces"] = TraceChoice(traces.budget, _listed(traces.policies, str))
    values["prices"] = _made(Prices, "prices", values.get("prices") or {})
    values["claims"] = [_claim(entry) for entry in _entries("claims", values.get("claims") or [])]
    if values.get("choice"):
        values["choice"] = _budgeted(_made(Choice, "choice", values["choice"]))
    values |= {
        what: _listed(values[what], kind)
        for what, kind in (("budgets", (int, float)), ("measures", str))
        if what in values
    }
    grid: Grid = _made(Grid, "frontier", values)
    return grid


def composed(collection: CollectionEntry, policy: PolicyEntry, seed: int) -> dict[str, Any]:
    """The configuration of a policy on a collection, without a limit yet.

    Raises:
        ConfigError: on an unknown component or option, or a ``$variable`` that the collection does not give.
    """
    overrides = [*COMMON, f"seed={seed}", *collection.overrides, *policy.choices]
    where = f"policy {policy.name!r} on collection {collection.name!r}"
    try:
        config = compose([Template(text).substitute(collection.variables) for text in overrides])
        check_options(config)
    except KeyError as error:
        raise ConfigError(f"{where}: the collection gives no variable {error.args[0]!r}") from None
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    return config


def _claim(entry: Any) -> Claim:
    claim: Claim = _made(Claim, "claims", entry)
    texts = {what: _listed(getattr(claim, what), str) for what in ("against", "collections")}
    return _budgeted(replace(claim, **texts))


def _budgeted(asked: Asked) -> Asked:
    return replace(asked, budgets=_listed(asked.budgets, (int, float)))


def _made(kind: type[Any], where: str, values: Any) -> Any:
    try:
        return kind(**values)
    except TypeError as error:
        allowed = ", ".join(f.name for f in fields(kind))
        problem = str(error).split("__init__() ")[-1]
        raise ConfigError(f"{where}: {problem}; allowed are {allowed}") from None


def _entries(what: str, given: Any) -> Sequence[Any]:
    if not isinstance(given, list):
        raise ConfigError(f"{what}={given!r}: allowed is a list of entries; the option --{what} chooses among them")
    return given


def _listed(value: Any, kind: type[Any] | tuple[type[Any], ...]) -> Any:
    """A single value of that kind as the list of one that it stands for."""
    return [value] if isinstance(value, kind) else value


def _pick(what: str, entries: Sequence[Any], names: set[str]) -> list[Any]:
    known = [entry.name for entry in entries]
    for unknown in sorted(names - set(known)):
        raise ConfigError(f"{what}: unknown {unknown!r}: allowed are {', '.join(known)}{did_you_mean(unknown, known)}")
    return [entry for entry in entries if entry.name in names]


def _require_policies(policies: Sequence[PolicyEntry]) -> None:
    for entry in policies:
        if entry.kind not in KINDS:
            raise ConfigError(f"policy {entry.name!r}: kind={entry.kind!r}: allowed are {', '.join(KINDS)}")
    incumbents = [entry.name for entry in policies if entry.kind == "incumbent"]
    if len(incumbents) != 1:
        raise ConfigError(f"policies: exactly one of kind incumbent is needed, there are {incumbents}")
