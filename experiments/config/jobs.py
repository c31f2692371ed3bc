"""The jobs of a sweep: their configurations, and which of them differ by a limit alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import cache, lru_cache
from itertools import product
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from experiments.config.targets import require_hydra_allowed

Jobs = Sequence[Sequence[str]]
"""Overrides of jobs, in their order."""


@lru_cache(maxsize=1024)
def parsed(word: str) -> Override:
    """The meaning of a word of the command line. Hydra's parser is slow, and jobs share most words.

    Raises:
        OverrideParseException: if it is no override.
    """
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


def later_budgets(budget: Mapping[str, Any], job: Sequence[str], jobs: Jobs) -> list[dict[str, Any]]:
    """The budgets, as plain data, of the jobs after this one that differ from it by one limit alone.

    Args:
        budget: the job's own.
        job: its overrides.
        jobs: all jobs of the sweep; a job that is not among them has no later ones.
    """
    from ragtune.core.request.limits import LIMITS  # where it is used, so that --help is answered at once

    after = jobs[jobs.index(job) + 1 :] if job in jobs else ()
    # Limits under which one replay gives the results of smaller ones.
    for key in (f"budget.{LIMITS[unit]}" for unit in ("docs", "calls")):
        own, limit = _apart(job, key)
        mates = [limit_of for others, limit_of in (_apart(other, key) for other in after) if others == own]
        if limit and mates:
            values = dict.fromkeys(parsed(each[0]).value() for each in mates if each)
            return [{**budget, key.partition(".")[2]: value} for value in values]
    return []


def _apart(job: Sequence[str], key: str) -> tuple[list[str], list[str]]:
    """The words of a job that do not set an option, and those that do."""
    sets = [word for word in job if word.startswith(f"{key}=")]
    return [word for word in job if word not in sets], sets


class JobConfigs:
    """Hydra's loader of configurations, which composes each combination of choices once for all jobs of a sweep.

    Hydra reads some thirty files a job, twice. Here, a job that differs from another by values of options gets a copy
    with its own values. Every configuration is checked for classes that a preset must not name.

    Args:
        loader: Hydra's own loader.
    """

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
        """Whether it sets an option of what is chosen, rather than choosing."""
        key = override.key_or_group
        return override.package is None and "/" not in key and not self._is_group(key)

    def _is_group(self, key: str) -> bool:
        return any(source.is_group(key) for source in self._loader.get_sources())


def _checked(config: DictConfig) -> DictConfig:
    require_hydra_allowed(config.hydra)
    return config
