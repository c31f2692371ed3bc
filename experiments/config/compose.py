"""From the command line and Hydra's configuration to plain, resolved, checked data, for a run and for sweeps."""

from __future__ import annotations

import re
import time
from collections.abc import Hashable, Sequence
from contextlib import nullcontext, suppress
from copy import deepcopy
from functools import lru_cache
from itertools import chain, product
from pathlib import Path
from typing import Any

import yaml
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.config_loader import ConfigLoader
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType
from hydra.core.plugins import Plugins
from hydra.errors import HydraException, OverrideParseException
from hydra.plugins.config_source import ConfigSource
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
    is_begun = GlobalHydra.instance().is_initialized()
    try:
        with nullcontext() if is_begun else initialize_config_dir(str(CONF), job_name="main", version_base="1.3"):
            config = _derived(root, words)
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(readable(error, command)) from None
    with open_dict(config):
        del config["hydra"]
    return config


def _state_of(folders: Sequence[str]) -> Hashable:
    """The configuration's files with the times of their last changes: a notebook lives longer than these stay."""
    files = (file for folder in folders for file in Path(folder).rglob("*.yaml"))
    return frozenset((file, file.stat().st_mtime_ns) for file in files)


def _derived(root: str, words: Sequence[str], state: Hashable = None) -> DictConfig:
    """What Hydra composes with its own options; choices (30 files) are composed once while the files' state is one."""
    state = state or _state_of([str(CONF), *re.findall(r"file://([^,\]'\"]+)", " ".join(words))])
    overrides = [parsed(word) for word in words]
    values = [each for each in overrides if each.package is None]
    values = [each for each in values if "." in each.key_or_group or each.key_or_group in _PLAIN]
    values = [each for each in values if each.key_or_group != "hydra.searchpath"]
    if any(each.type != OverrideType.CHANGE for each in overrides):
        values = []  # what is added may rest on a value before it
    config = deepcopy(_composed(root, tuple(str(each.input_line) for each in overrides if each not in values), state))
    config.hydra.runtime.cwd = str(Path.cwd())
    places = [OmegaConf.to_container(config.hydra[mode]) for mode in ("run", "sweep")]
    if "override_dirname" not in f"{places} {words}":  # which rests on all overrides
        with suppress(OmegaConfBaseException):
            for each in values:
                OmegaConf.update(config, each.key_or_group, each.value(), merge=True)
            for kind in ("task", "hydra"):
                own = [each.input_line for each in overrides if each.is_hydra_override() == (kind == "hydra")]
                config.hydra.overrides[kind] = own
            return config
    return hydra_compose(root, list(words), return_hydra_config=True)  # in its words, where it is an error


_PLAIN = ("seed", "resume", "verbosity", "clock", "measures")


@lru_cache(maxsize=64)
def _composed(root: str, words: tuple[str, ...], state: Hashable) -> DictConfig:
    return hydra_compose(root, list(words), return_hydra_config=True)


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
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, InputError):  # of a pack
                raise cause from None
            cause = cause.__context__
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
    said = " ".join(line for line in lines if not line.startswith(noise))
    return said.replace("key='value1,value2'", r"key=\'value1,value2\'") + _nearest_choice(lines)  # as a shell needs it


_BY_NAME = "a group is chosen by a name, GROUP=NAME"


def _nearest_choice(lines: Sequence[str]) -> str:
    wanted = re.search(r"Could not find '(?:.*/)?(.+)'", lines[0])
    listed = next((i for i, line in enumerate(lines) if line.startswith("Available options")), None)
    if wanted is None or listed is None:
        return ""
    return did_you_mean(wanted[1], lines[listed + 1 :])


Jobs = Sequence[Sequence[str]]


_PARSER = OverridesParser.create()


@lru_cache(maxsize=1024)
def parsed(word: str) -> Override:
    """The meaning of a word of the command line. Hydra's parser is slow, and jobs share most words."""
    [override] = _PARSER.parse_overrides([word])
    return override


def combinations(overrides: Sequence[Override]) -> list[list[str]]:
    """The jobs that Hydra's own sweeper makes of overrides: every combination, the last one varies fastest."""
    words: dict[str, list[str]] = {}
    for override in overrides:
        name, is_swept = override.get_key_element(), override.is_sweep_override()
        values = override.sweep_string_iterator() if is_swept else [override.get_value_element_as_str()]
        words[name] = [f"{name}={value}" for value in values]
    return [list(job) for job in product(*words.values())]


def later_budgets(budget: Any, job: Sequence[str], jobs: Jobs) -> list[Any]:
    """The budgets of the jobs after this one that differ from it by one limit alone; a bad one is for its own job."""
    after = jobs[jobs.index(job) + 1 :] if job in jobs else ()
    # Limits under which one replay gives the results of smaller ones.
    for limit in (LIMITS[unit] for unit in ("docs", "calls")):
        key = f"budget.{limit}="
        mates = [word for each in after if _without(key, each) == _without(key, job) for word in each if key in word]
        if mates and _without(key, job) != job:
            found = []
            for value in dict.fromkeys(parsed(word).value() for word in mates):
                with suppress(ValueError):
                    found.append(type(budget)(**{**dict(budget), limit: value}))
            return found
    return []


def _without(key: str, job: Sequence[str]) -> list[str]:
    return [word for word in job if not word.startswith(key)]


class JobConfigs(ConfigLoader):
    """What sweepers and launchers ask Hydra for: the configurations of jobs, and names for ``glob``."""

    def __init__(self, words: Sequence[str]) -> None:
        self.config = _derived("config", words)  # of the sweep, or of a run; Hydra has been initialized
        self._sources, self._sweep = self.config.hydra.runtime.config_sources, time.time_ns()

    def load_sweep_config(self, master_config: DictConfig, sweep_overrides: list[str]) -> DictConfig:
        """The configuration of a job, as a copy of its own. A sweeper asks for it to check it, a launcher to run it."""
        given: Any = OmegaConf.to_container(master_config.hydra.overrides.hydra, resolve=False)
        config = _derived("config", [*given, *sweep_overrides], self._sweep)
        require_hydra_allowed(config.hydra)
        OmegaConf.copy_cache(from_config=master_config, to_config=config)
        return config

    def get_group_options(self, group_name: str, *_: Any, **__: Any) -> list[str]:
        """The choices of a group."""
        kinds: Any = Plugins.instance().discover(ConfigSource)
        made = {kind.scheme(): kind for kind in kinds}
        sources = [made[each.schema](each.provider, f"{each.schema}://{each.path}") for each in self._sources]
        options = (source.list(group_name, ObjectType.CONFIG) for source in sources if source.is_group(group_name))
        return sorted(set(chain.from_iterable(options)))

    def _unused(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError("sweepers and launchers ask for jobs alone")

    load_configuration = get_search_path = get_sources = list_groups = compute_defaults_list = _unused
