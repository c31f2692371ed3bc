"""From the command line and Hydra's configuration to plain, resolved, checked data, for a run and for sweeps."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from copy import deepcopy
from functools import cache, lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import yaml
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType
from hydra.errors import HydraException, OverrideParseException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from experiments.config.options import check_names, check_options, did_you_mean_option, known_options
from experiments.config.paths import CONF, SHIPPED
from experiments.config.targets import require_hydra_allowed
from ragtune.core.arguments import did_you_mean
from ragtune.core.errors import ConfigError, InputError, MissingExtraError
from ragtune.core.units import LIMITS


def spelled_out(overrides: Sequence[str]) -> list[str]:
    """The overrides, with ``budget=20`` or ``budget=3calls`` as the limit of that unit (documents if none is given)."""
    return [option for override in overrides for option in _spelled_out(override)]


def _spelled_out(override: str) -> list[str]:
    name, _, value = override.partition("=")
    if override.startswith("dataset=pack:"):
        return ["dataset=pack", f"dataset.file='{value.removeprefix('pack:')}'"]
    amounts = [amount.strip() for amount in value.split(",")]
    if name != "budget" or not any(re.match(r"[-+.]*\d", amount) for amount in amounts):
        return [override]
    names = [amount for amount in amounts if re.fullmatch(r"[a-z]\w*", amount)]
    form = rf"(\d+(?:\.\d+)?(?:e-?\d+)?)({'|'.join(LIMITS)})?"
    matches = {amount: re.fullmatch(form, amount) for amount in amounts if amount not in names}
    found = {amount: (match[1], match[2] or "docs") for amount, match in matches.items() if match}
    units = {unit for _, unit in found.values()}
    if len(found) < len(matches) or len(units) > 1:
        raise ConfigError(
            f"{override!r}: allowed are amounts of one unit, {', '.join(LIMITS)} (docs if unsaid), as in budget=20, "
            "budget=3calls or budget=0.002usd,0.01usd, and names of budgets, as in budget=tight,50"
        )
    if names:
        choices = {amount: f"{number}{unit}" for amount, (number, unit) in found.items()}
        for amount, choice in choices.items():
            _store_budget(choice, *found[amount])
        return [f"budget={','.join(choices.get(amount, amount) for amount in amounts)}"]
    unit = units.pop()
    others = [] if unit == "docs" else [f"budget.{LIMITS['docs']}=null"]
    return ["budget=tight", *others, f"budget.{LIMITS[unit]}={','.join(found[amount][0] for amount in amounts)}"]


def _store_budget(name: str, number: str, unit: str) -> None:
    """Make a budget of that amount known to Hydra beside the files of conf/budget."""
    tight = yaml.safe_load((CONF / "budget" / "tight.yaml").read_text(encoding="utf-8"))
    amount = int(number) if number.isdigit() else float(number)
    ConfigStore.instance().store(group="budget", name=name, node={**tight, LIMITS["docs"]: None, LIMITS[unit]: amount})


def register_resolvers() -> None:
    """Make ``${shipped:}``, the demo collection, and ``${pack:FILE}`` known to OmegaConf; harmless to call again."""
    OmegaConf.register_new_resolver("shipped", lambda: str(SHIPPED), replace=True)
    OmegaConf.register_new_resolver("pack", _in_pack, replace=True)


def _in_pack(file: str) -> str:
    from experiments.config.packs import unpacked

    return unpacked(file)


def compose(overrides: Sequence[str]) -> dict[str, Any]:
    """The resolved configuration that ``ragtune run OVERRIDES`` would use, without running anything."""
    return resolve(composed(overrides))


def composed(overrides: Sequence[str], root: str = "config", command: str = "ragtune run") -> DictConfig:
    """The unresolved configuration of ``conf/ROOT.yaml`` with overrides."""
    register_resolvers()
    words = spelled_out(overrides)
    try:
        if GlobalHydra.instance().is_initialized():  # inside a job, whose files may be others
            return hydra_compose(root, overrides=words)
        with initialize_config_dir(str(CONF), version_base="1.3"):
            loader, master = _loader(str(CONF), root, _state_of(CONF))
            config = loader.load_sweep_config(master, words)
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(readable(error, command)) from None
    with open_dict(config):
        del config["hydra"]
    return config


def _state_of(conf: Path) -> frozenset[tuple[Path, int]]:
    """The configuration's files with the times of their last changes: a notebook lives longer than these stay."""
    return frozenset((file, file.stat().st_mtime_ns) for file in conf.rglob("*.yaml"))


@lru_cache(maxsize=4)
def _loader(conf: str, root: str, state: frozenset[tuple[Path, int]]) -> tuple[JobConfigs, DictConfig]:
    """What composes ``root`` of the folder that Hydra is at: a study asks for it policy by policy."""
    loader = JobConfigs(GlobalHydra.instance().config_loader())
    return loader, loader.load_configuration(root, [], RunMode.RUN)


def resolve(cfg: DictConfig) -> dict[str, Any]:
    """The configuration as plain data, every interpolation resolved, the harness's own options checked."""
    # First, since what is deleted may be referred to by what is not.
    check_names([str(name) for name in cfg])
    config = plain(cfg)
    check_options(config)
    return config


def plain(cfg: DictConfig) -> dict[str, Any]:
    """The configuration as plain data, every interpolation resolved."""
    try:
        data: dict[str, Any] = OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)  # type: ignore[assignment]
    except MissingMandatoryValue as error:
        key = error.full_key or "an option"
        raise ConfigError(f"{key} is missing: give it on the command line, {key}=VALUE") from None
    except OmegaConfBaseException as error:
        if isinstance(error.__context__, InputError):  # of a pack
            raise error.__context__ from None
        where = f"{error.full_key}: " if error.full_key else ""
        raise ConfigError(f"the configuration cannot be resolved: {where}{str(error).splitlines()[0]}") from None
    return data


def readable(error: BaseException, command: str = "ragtune run") -> str:
    """The message of an error of Hydra on one line, without what only Hydra's developers need."""
    if isinstance(error, OverrideParseException):
        return f"cannot parse {error.override!r}: {error.message.splitlines()[0]}; options are given as NAME=VALUE"
    if isinstance(error, TypeError):
        return f"the options cannot be composed ({error}): {_BY_NAME}"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if lines[0].startswith("Could not override"):
        name = lines[0].removeprefix("Could not override").split()[0].strip("'.")
        if name in known_options():
            return f"the option {name!r} cannot be written out: {_BY_NAME}"
        help_lists = f"{command} --help lists the options of the components chosen"
        return f"unknown option {name!r}: {help_lists}{did_you_mean_option(name, known_options())}"
    if "hydra/sweeper/optuna" in lines[0]:
        return str(MissingExtraError("hydra/sweeper=tune", "optuna"))
    if "experiments.cli.measured" in lines[0]:
        return str(MissingExtraError("hydra/callbacks=tirex", "tirex"))
    if lines[0].startswith("Config group override must be"):
        return f"{lines[0]}: {_BY_NAME}"
    noise = ("See ", "Set the environment", "Config search path", "provider=")
    return " ".join(line for line in lines if not line.startswith(noise)) + _nearest_choice(lines)


_BY_NAME = "a group is chosen by a name, GROUP=NAME"


def _nearest_choice(lines: Sequence[str]) -> str:
    wanted = re.search(r"Could not find '(?:.*/)?(.+)'", lines[0])
    listed = next((i for i, line in enumerate(lines) if line.startswith("Available options")), None)
    if wanted is None or listed is None:
        return ""
    return did_you_mean(wanted[1], lines[listed + 1 :])


Jobs = Sequence[Sequence[str]]
"""Overrides of jobs, in their order."""


@lru_cache(maxsize=1024)
def parsed(word: str) -> Override:
    """The meaning of a word of the command line. Hydra's parser is slow, and jobs share most words."""
    [override] = _parser().parse_overrides([word])
    return override


@cache
def _parser() -> OverridesParser:
    return OverridesParser.create()


def combinations(overrides: Sequence[Override]) -> list[list[str]]:
    """The jobs that Hydra's own sweeper makes of overrides: every combination, the last one varies fastest."""
    words: dict[str, list[str]] = {}
    for override in overrides:
        name = override.get_key_element()
        is_swept = override.is_sweep_override()
        values = override.sweep_string_iterator() if is_swept else [override.get_value_element_as_str()]
        words[name] = [f"{name}={value}" for value in values]
    return [list(job) for job in product(*words.values())]


def later_budgets(budget: Any, job: Sequence[str], jobs: Jobs) -> list[Any]:
    """The budgets of the jobs after this one that differ from it by one limit alone; a bad one is for its own job."""
    after = jobs[jobs.index(job) + 1 :] if job in jobs else ()
    # Limits under which one replay gives the results of smaller ones.
    for limit in (LIMITS[unit] for unit in ("docs", "calls")):
        own, limits = _apart(job, f"budget.{limit}")
        apart = [_apart(each, f"budget.{limit}") for each in after]
        mates = [words[0] for others, words in apart if others == own and words]
        if limits and mates:
            found = []
            for value in dict.fromkeys(parsed(word).value() for word in mates):
                with suppress(ValueError):
                    found.append(type(budget)(**{**dict(budget), limit: value}))
            return found
    return []


def _apart(job: Sequence[str], key: str) -> tuple[list[str], list[str]]:
    sets = [word for word in job if word.startswith(f"{key}=")]
    return [word for word in job if word not in sets], sets


class JobConfigs:
    """Hydra's loader, which checks configurations, and composes (30 files) each combination of choices once a sweep."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._composed: dict[tuple[str, ...], DictConfig] = {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._loader, name)

    def __getstate__(self) -> dict[str, Any]:
        return {"_loader": self._loader, "_composed": {}}  # a launcher may send this along with every job

    def load_configuration(self, *args: Any, **options: Any) -> DictConfig:
        """Compose a configuration. Its node ``hydra`` may name allowed classes only, since Hydra calls them at once."""
        return _checked(self._loader.load_configuration(*args, **options))

    def load_sweep_config(self, master_config: DictConfig, sweep_overrides: list[str]) -> DictConfig:
        """The configuration of a job, as a copy of its own. A sweeper asks for it to check it, a launcher to run it."""
        overrides = [parsed(word) for word in sweep_overrides]
        # What is added may rest on a value before it; the name of a job's folder may rest on all overrides.
        is_simple = all(each.type == OverrideType.CHANGE and not each.is_hydra_override() for each in overrides)
        if is_simple and "override_dirname" not in str(OmegaConf.to_container(master_config.hydra.sweep)):
            try:
                return self._derived(master_config, overrides)
            except (HydraException, OmegaConfBaseException):
                pass  # Hydra composes it below, for its message
        return _checked(self._loader.load_sweep_config(master_config, sweep_overrides))

    def _derived(self, master_config: DictConfig, overrides: list[Override]) -> DictConfig:
        values = [override for override in overrides if self._is_value(override)]
        choices = tuple(str(override.input_line) for override in overrides if override not in values)
        if choices not in self._composed:
            self._composed[choices] = _checked(self._loader.load_sweep_config(master_config, list(choices)))
        config = deepcopy(self._composed[choices])
        for override in values:
            OmegaConf.update(config, override.key_or_group, override.value(), merge=True)
        config.hydra.overrides.task = [override.input_line for override in overrides]
        return config

    def _is_value(self, override: Override) -> bool:
        key = override.key_or_group
        is_group = any(source.is_group(key) for source in self._loader.get_sources())
        return override.package is None and "/" not in key and not is_group


def _checked(config: DictConfig) -> DictConfig:
    require_hydra_allowed(config.hydra)
    return config
