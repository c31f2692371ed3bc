"""The grid of a study: collections, policies and budgets, read from ``conf/frontier``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from string import Template
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from experiments.config.compose import compose, register_resolvers
from experiments.config.options import check_options
from experiments.config.paths import CONF
from experiments.study.study import KINDS, NOUNS, Policy, Prices
from ragtune.core.arguments import check_choice, check_count
from ragtune.core.errors import ConfigError

FOLDER = CONF / "frontier"

COMMON = ("tracking=none", "executor=inline", "budget=unlimited")
"""Overrides of every cell: the study itself is the record, and a policy meets no limit but the budget under test."""

PLACES = ("data", "models", "graphs")
"""Keys that only interpolations of the same file refer to: folders of collections, models and graphs."""


@dataclass(frozen=True)
class CollectionEntry:
    """A collection with its first stage and reranker, as overrides of ``run.py``."""

    name: str
    overrides: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PolicyEntry:
    """A policy, as overrides of ``run.py``; ``$name`` in them stands for a variable of the collection."""

    name: str
    label: str
    kind: str
    overrides: Sequence[str] = ()

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
        unit: what the budgets limit, ``docs`` or ``calls``; the report knows documents only.

    Raises:
        ConfigError: on an entry that is missing, unknown, repeated or out of range.
    """

    name: str
    collections: Sequence[CollectionEntry]
    policies: Sequence[PolicyEntry]
    budgets: Sequence[int]
    measures: Sequence[str]
    traces: TraceChoice
    resamples: int = 1000
    permutations: int = 9999
    level: float = 0.95
    seed: int = 0
    jobs: int = -1
    texts: bool = True
    report: bool = True
    unit: str = "docs"
    prices: Prices = field(default_factory=Prices)

    def __post_init__(self) -> None:
        _require_names("name", [self.name])
        for what, entries in (("collections", self.collections), ("policies", self.policies)):
            _require_names(what, [entry.name for entry in entries])
        _require_budgets(self.budgets)
        _require_policies(self.policies)
        _require_measures(self.measures)
        for what in ("resamples", "permutations"):
            if not _is_count(getattr(self, what)):
                raise ConfigError(f"{what}={getattr(self, what)!r}: allowed is an integer >= 1")
        if not isinstance(self.level, float) or not 0 < self.level < 1:
            raise ConfigError(f"level={self.level!r}: allowed is a number between 0 and 1, e.g. 0.95")
        if self.jobs != -1 and not _is_count(self.jobs):
            raise ConfigError(f"jobs={self.jobs!r}: allowed is an integer >= 1, or -1 for one a core")
        for what in ("texts", "report"):
            if not isinstance(getattr(self, what), bool):
                raise ConfigError(f"{what}={getattr(self, what)!r}: allowed are true, false")
        check_count("seed", self.seed)
        check_choice("unit", self.unit, NOUNS)
        if self.report and self.unit != "docs":
            raise ConfigError(f"report=true with unit={self.unit}: allowed is report=false, its axes know no calls")
        self._require_traces()
        _require_prices(self.prices)

    def _require_traces(self) -> None:
        if self.traces.budget not in self.budgets:
            raise ConfigError(f"traces.budget={self.traces.budget!r}: allowed are the budgets {list(self.budgets)}")
        known = [entry.name for entry in self.policies]
        for name in self.traces.policies:
            if name not in known:
                raise ConfigError(f"traces.policies: unknown policy {name!r}: allowed are {', '.join(known)}")

    @property
    def incumbent(self) -> PolicyEntry:
        """The policy that all others are tested against."""
        return next(entry for entry in self.policies if entry.kind == "incumbent")

    def only(self, collections: Sequence[str], policies: Sequence[str]) -> Grid:
        """The grid with only the named collections and policies; no names mean all, and the incumbent always stays.

        Raises:
            ConfigError: on an unknown name.
        """
        chosen = {self.incumbent.name, *policies} if policies else {entry.name for entry in self.policies}
        kept_policies = _pick("policies", self.policies, chosen)
        names = {entry.name for entry in kept_policies}
        traces = TraceChoice(self.traces.budget, [name for name in self.traces.policies if name in names])
        wanted = set(collections) or {entry.name for entry in self.collections}
        kept_collections = _pick("collections", self.collections, wanted)
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return Grid(**{**values, "collections": kept_collections, "policies": kept_policies, "traces": traces})


def load_grid(name: str, options: Sequence[str] = ()) -> Grid:
    """Read the grid of ``conf/frontier/NAME.yaml`` or of a YAML file, and change it by ``key=value`` options.

    Raises:
        ConfigError: if the file is missing, or naming what is wrong in it.
    """
    file = Path(name) if name.endswith((".yaml", ".yml")) else FOLDER / f"{name}.yaml"
    if not file.is_file():
        there = ", ".join(sorted(p.stem for p in FOLDER.glob("*.yaml")))
        raise ConfigError(f"no frontier configuration {name!r}: allowed are {there}, or the path of a YAML file")
    register_resolvers()
    try:
        loaded = OmegaConf.merge(OmegaConf.load(file), *map(_option, options))
        raw: Any = OmegaConf.to_container(loaded, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise ConfigError(f"{file.name}: {str(error).splitlines()[0]}") from None
    except (YAMLError, OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file.name} cannot be read: {' '.join(str(error).split())}") from None
    if not isinstance(raw, dict):
        raise ConfigError(f"{file.name} holds no KEY: VALUE pairs")
    raw = {key: value for key, value in raw.items() if key not in PLACES}
    return grid_of({"name": file.stem, **raw})


def _option(text: str) -> Any:
    try:
        return OmegaConf.from_dotlist([text])
    except YAMLError as error:
        raise ConfigError(
            f"cannot parse {text!r}: {str(error).splitlines()[0]}; options are given as KEY=VALUE"
        ) from None


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
    values |= {
        what: _listed(values[what], kind) for what, kind in (("budgets", int), ("measures", str)) if what in values
    }
    grid: Grid = _made(Grid, "frontier", values)
    return grid


def composed(collection: CollectionEntry, policy: PolicyEntry, seed: int) -> dict[str, Any]:
    """The configuration of a policy on a collection, without a limit yet.

    Raises:
        ConfigError: on an unknown component or option, or a ``$variable`` that the collection does not give.
    """
    overrides = [*COMMON, f"seed={seed}", *collection.overrides, *policy.overrides]
    where = f"policy {policy.name!r} on collection {collection.name!r}"
    try:
        config = compose([Template(text).substitute(collection.variables) for text in overrides])
        check_options(config)
    except KeyError as error:
        raise ConfigError(f"{where}: the collection gives no variable {error.args[0]!r}") from None
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    return config


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


def _listed(value: Any, kind: type[Any]) -> Any:
    """A single value of that kind as the list of one that it stands for."""
    return [value] if isinstance(value, kind) else value


def _pick(what: str, entries: Sequence[Any], names: set[str]) -> list[Any]:
    known = [entry.name for entry in entries]
    unknown = sorted(names - set(known))
    if unknown:
        raise ConfigError(f"{what}: unknown {unknown[0]!r}: allowed are {', '.join(known)}")
    return [entry for entry in entries if entry.name in names]


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_listed(values: Any, is_good: Callable[[Any], bool]) -> bool:
    return isinstance(values, (list, tuple)) and bool(values) and all(map(is_good, values))


def _require_names(what: str, names: Sequence[str]) -> None:
    if not names:
        raise ConfigError(f"{what} is empty: name at least one")
    for name in names:
        if not isinstance(name, str) or not name or set(name) & set("/\\\0|"):
            raise ConfigError(f"{what}: name {name!r}: allowed is a text without slashes and bars")
        if names.count(name) > 1:
            raise ConfigError(f"{what}: the name {name!r} is given twice")


def _require_budgets(budgets: Any) -> None:
    if not _is_listed(budgets, _is_count) or list(budgets) != sorted(set(budgets)):
        raise ConfigError(f"budgets={budgets!r}: allowed are ascending integers >= 1, e.g. [10, 20, 50]")


def _require_measures(measures: Any) -> None:
    if not measures:
        raise ConfigError("measures is empty: name at least one, e.g. nDCG@10; the first is the headline")
    if not _is_listed(measures, lambda name: isinstance(name, str)):
        raise ConfigError(f"measures={measures!r}: allowed is a list of names, e.g. [nDCG@10, AP]")


def _require_prices(prices: Prices) -> None:
    for name, value in vars(prices).items():
        least = 1 if name == "docs_per_unit" else 0
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value < float("inf"):
            raise ConfigError(f"prices.{name}={value!r}: allowed is a number >= {least}")


def _require_policies(policies: Sequence[PolicyEntry]) -> None:
    for entry in policies:
        if entry.kind not in KINDS:
            raise ConfigError(f"policy {entry.name!r}: kind={entry.kind!r}: allowed are {', '.join(KINDS)}")
    incumbents = [entry.name for entry in policies if entry.kind == "incumbent"]
    if len(incumbents) != 1:
        raise ConfigError(f"policies: exactly one of kind incumbent is needed, there are {incumbents}")
