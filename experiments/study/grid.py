"""The grid of a study: collections, policies and budgets, and what is asked of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from string import Template
from typing import Annotated, Any, Literal

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException
from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass
from yaml import YAMLError

from experiments.config.compose import compose, register_resolvers
from experiments.config.options import check_options
from experiments.config.paths import CONF
from experiments.report.study import CHECKED, Amounts, Claim, PolicyChoice, StudyPolicy, Texts
from ragtune.core.arguments import did_you_mean
from ragtune.core.errors import ConfigError
from ragtune.core.plain import first_line
from ragtune.core.units import BY_SHORT, Unit

COMMON = ("tracking=none", "executor=inline", "budget=unlimited")
"""Overrides of every cell: the study itself is the record, and a policy meets no limit but the budget under test."""

FOLDER = CONF / "frontier"

PLACES = ("data", "models", "graphs", "embedder", "reranker")
"""Keys that only interpolations of the same file refer to: folders of collections, models and graphs, and choices."""

Name = Annotated[str, Field(pattern=r"^[^/\\|]+$")]
Count = Annotated[int, Field(ge=1)]


@dataclass(frozen=True, config=CHECKED)
class CollectionEntry:
    """A collection with its first stage and reranker, as overrides of ``run.py``."""

    name: Name
    overrides: Sequence[str] = ()
    variables: Mapping[str, Any] = field(default_factory=dict)  # what policies write as ``$name``
    group: str = ""  # see :class:`experiments.report.study.Collection`, as for ``plain``; by default the name
    plain: str = ""


@dataclass(frozen=True, config=CHECKED)
class PolicyEntry:
    """A policy, as overrides of ``run.py``; ``$name`` in them stands for a variable of the collection."""

    name: Name
    kind: Literal["baseline", "peer", "ours", "ceiling"]
    label: str = ""  # by default the name, with blanks for underscores
    overrides: Sequence[str] | None = None  # by default the preset of its name

    @property
    def choices(self) -> Sequence[str]:
        return [f"experiment={self.name}"] if self.overrides is None else self.overrides

    @property
    def policy(self) -> StudyPolicy:
        return StudyPolicy(self.name, self.label or self.name.replace("_", " "), self.kind)


def _shipped_families() -> Any:
    return OmegaConf.to_container(OmegaConf.load(CONF / "families.yaml"))


@dataclass(frozen=True, config=CHECKED)
class Grid:
    """A study's configuration; ``conf/frontier/demo.yaml`` explains every key."""

    name: Name
    collections: Annotated[Sequence[CollectionEntry], Field(min_length=1)]
    policies: Annotated[Sequence[PolicyEntry], Field(min_length=1)]
    budgets: Amounts
    measures: Annotated[Texts, Field(min_length=1)]
    question: str = ""
    resamples: Count = 1000
    permutations: Count = 9999
    level: Annotated[float, Field(gt=0, lt=1)] = 0.95
    seed: Annotated[int, Field(ge=0)] = 0
    jobs: Literal[-1] | Count = -1
    queries: Count | None = None
    report: bool = True
    unit: str = "docs"
    claims: Sequence[Claim] = ()
    choice: PolicyChoice | None = None
    families: Mapping[str, Sequence[str]] = field(default_factory=_shipped_families)  # groups by family

    def family_of(self, entry: CollectionEntry) -> str:
        """The family of a collection's group; a group that no family names is one by itself."""
        group = entry.group or entry.name
        return next((family for family, groups in self.families.items() if group in groups), group)

    def configuration(self, collection: CollectionEntry, policy: PolicyEntry) -> dict[str, Any]:
        config = composed(collection, policy, self.seed)
        if self.queries:
            config["dataset"] |= {"sample": {"queries": self.queries, "seed": self.seed}}
        return config

    @property
    def limited(self) -> Unit:
        return BY_SHORT[self.unit]

    @property
    def baseline(self) -> PolicyEntry:
        """The first policy of kind ``baseline``: the reference of the tables, and what full quality is."""
        return next(entry for entry in self.policies if entry.kind == "baseline")

    def only(self, collections: Sequence[str], policies: Sequence[str]) -> Grid:
        """The grid with only the named collections and policies; no names mean all, and the baseline always stays."""
        chosen = {self.baseline.name, *policies} if policies else set(_names(self.policies))
        wanted = set(collections) or set(_names(self.collections))
        _require_known("policies", sorted(chosen), _names(self.policies))
        _require_known("collections", sorted(wanted), _names(self.collections))
        families = {self.family_of(entry) for entry in self.collections if entry.name in wanted}
        can_choose = self.choice and self.choice.default in chosen and len(families) > 1
        left = [replace(claim, against=[name for name in claim.against if name in chosen]) for claim in self.claims]
        return replace(
            self,
            collections=[
                replace(entry, plain=entry.plain if entry.plain in wanted else "")
                for entry in self.collections
                if entry.name in wanted
            ],
            policies=[entry for entry in self.policies if entry.name in chosen],
            claims=[claim for claim in left if claim.policy in chosen and claim.against],
            choice=self.choice if can_choose else None,
        )


def load_grid(name: str, options: Sequence[str] = ()) -> Grid:
    """Read ``conf/frontier/NAME.yaml`` or a YAML file, which replaces keys of its ``base``; apply the options."""
    file = _file(name)
    register_resolvers()
    try:
        loaded = OmegaConf.merge(_read(file), *map(_option, options))
        raw: Any = OmegaConf.to_container(loaded, resolve=True, throw_on_missing=True)
    except MissingMandatoryValue as error:
        given = "--data DIR" if error.full_key == "data" else f"{error.full_key}=VALUE"
        raise ConfigError(f"{file.name}: {error.full_key} is missing: give it on the command line, {given}") from None
    except OmegaConfBaseException as error:
        raise ConfigError(f"{file.name}: {first_line(error)}") from None
    except (YAMLError, OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file.name} cannot be read: {' '.join(str(error).split())}") from None
    raw = {key: value for key, value in raw.items() if key not in PLACES}
    return grid_of({"name": file.stem, **raw})


def _file(name: str) -> Path:
    file = Path(name) if name.endswith((".yaml", ".yml")) else FOLDER / f"{name}.yaml"
    if not file.is_file():
        there = sorted(found.stem for found in FOLDER.glob("*.yaml"))
        meant = did_you_mean(name, there)
        raise ConfigError(
            f"no frontier configuration {name!r}: allowed are {', '.join(there)}, or the path of a YAML file{meant}"
        )
    return file


def _read(file: Path) -> DictConfig:
    own = OmegaConf.load(file)
    if not isinstance(own, DictConfig):
        raise ConfigError(f"{file.name} holds no KEY: VALUE pairs")
    base = own.pop("base", None)
    return own if base is None else DictConfig(OmegaConf.merge(_read(_file(str(base))), own))


def _option(text: str) -> Any:
    try:
        return OmegaConf.from_dotlist([text])
    except YAMLError as error:
        raise ConfigError(f"cannot parse {text!r}: {first_line(error)}; options are given as KEY=VALUE") from None


def grid_of(raw: Mapping[str, Any]) -> Grid:
    """Make a grid from plain data."""
    try:
        grid = TypeAdapter(Grid).validate_python(dict(raw))
    except ValidationError as error:
        flaw = error.errors(include_url=False)[0]
        where, given = ".".join(map(str, flaw["loc"])), str(flaw["input"])[:80]
        raise ConfigError(f"{where}={given}: {flaw['msg']}; conf/frontier/demo.yaml explains every key") from None
    _require(grid)
    return grid


def _require(grid: Grid) -> None:
    _require_known("unit", [grid.unit], list(BY_SHORT))
    budgets = grid.budgets
    if list(budgets) != sorted(set(budgets)) or (grid.limited.is_count and any(b != int(b) for b in budgets)):
        numbers = "integers >= 1" if grid.limited.is_count else "numbers > 0"
        raise ConfigError(f"budgets={budgets!r}: allowed are ascending {numbers}, e.g. [10, 20, 50]")
    pairs, policies = _names(grid.collections), _names(grid.policies)
    for what, names in (("collections", pairs), ("policies", policies), ("claims", _names(grid.claims))):
        if twice := [name for name in names if names.count(name) > 1]:
            raise ConfigError(f"{what}: the name {twice[0]!r} is given twice")
    if all(entry.kind != "baseline" for entry in grid.policies):
        raise ConfigError("policies: none is of kind baseline: all others are tested against the first of that kind")
    listed = [group for groups in grid.families.values() for group in groups]
    if twice := [group for group in listed if listed.count(group) > 1]:
        raise ConfigError(f"families: {twice[0]!r} is in two families: allowed is one")
    for entry in grid.collections:
        _require_known(f"plain of {entry.name!r}", [entry.plain] if entry.plain else [], pairs)
    for claim in grid.claims:
        where = f"claim {claim.name!r}"
        _require_known(f"{where}: policy", [claim.policy], policies)
        _require_known(f"{where}: against", claim.against, policies)
        _require_known(f"{where}: budgets", claim.budgets, budgets)
        _require_known(f"{where}: depth", [claim.depth], ["same", "spent", "fewer", *budgets])
    if grid.choice:
        _require_known("choice.budgets", grid.choice.budgets, budgets)
        _require_known("choice.default", [grid.choice.default], _names(e for e in grid.policies if e.kind == "ours"))
        families = sorted({grid.family_of(entry) for entry in grid.collections})
        if len(families) < 2:
            raise ConfigError(f"choice needs two families of collections, so that one can be left out: {families}")


def _require_known(what: str, given: Sequence[Any], known: Sequence[Any]) -> None:
    for value in given:
        if value not in known:
            meant = did_you_mean(value, list(map(str, known))) if isinstance(value, str) else ""
            raise ConfigError(f"{what}: unknown {value!r}: allowed are {', '.join(map(str, known))}{meant}")


def _names(entries: Iterable[Any]) -> list[str]:
    return [entry.name for entry in entries]


def composed(collection: CollectionEntry, policy: PolicyEntry, seed: int) -> dict[str, Any]:
    """The configuration of a policy on a collection, without a limit yet."""
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
