"""The configurations of a sweep's jobs, most of which differ from another by a few values only."""

from __future__ import annotations

import pickle
from copy import copy, deepcopy
from functools import cache, lru_cache
from typing import Any, Self

from hydra._internal.config_loader_impl import ConfigLoaderImpl, get_overrides_dirname
from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

_CHECKED = 100
"""Configurations that are kept between a sweeper's look and the launch."""


class _OfOneJob(DictConfig):
    """A job's configuration, or Hydra's own part of it. Hydra copies the one or the other five times a job, to be alone
    with it; nobody else has it, so the copies hold the same nodes.
    """

    def __deepcopy__(self, memo: Any) -> Self:
        twin = type(self)(None)
        own = {"_metadata": deepcopy(self._metadata), "_content": copy(vars(self)["_content"]), "_flags_cache": None}
        vars(twin).update(vars(self), **own)
        return twin


@lru_cache(maxsize=1024)
def parsed(word: str) -> Override:
    """What a word of the command line says. Most words of a sweep are those of all jobs, and Hydra's parser is slow.

    Raises:
        OverrideParseException: if it is no override.
    """
    [override] = _parser().parse_overrides([word])
    return override


@cache
def _parser() -> OverridesParser:
    return OverridesParser.create()


class JobConfigs(ConfigLoaderImpl):
    """Composes each combination of choices once, and sets a job's values in a copy of that.

    Hydra itself reads some thirty files a job, for a sweep twice: to see whether they can be composed, and to run it.

    Args:
        loader: Hydra's own, for the same files.
    """

    def __init__(self, loader: ConfigLoader) -> None:
        super().__init__(loader.get_search_path())
        self._composed: dict[tuple[str, ...], bytes] = {}
        self._groups: dict[str, bool] = {}
        self._checked: dict[tuple[str, ...], DictConfig] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_checked": {}}  # a launcher may send this along with every job

    def load_configuration(self, *args: Any, **options: Any) -> DictConfig:
        """Compose a configuration, whose ``hydra`` node may name only allowed classes: Hydra calls them at once."""
        from experiments.config.targets import require_hydra_allowed

        config = super().load_configuration(*args, **options)
        require_hydra_allowed(config.hydra)
        return config

    def load_sweep_config(self, master_config: DictConfig, sweep_overrides: list[str]) -> DictConfig:
        """The configuration of a job. Sweepers ask for it to see whether there is one, then launchers to run it."""
        job = tuple(sweep_overrides)
        kept = self._checked.pop(job, None)
        if kept is not None and OmegaConf.is_missing(kept.hydra.job, "num"):  # a launched one is written to and closed
            return kept
        config = self.of_job(master_config, sweep_overrides)
        for node in (config, config.hydra):
            object.__setattr__(node, "__class__", _OfOneJob)  # the plain way sets an option of that name
        if len(self._checked) < _CHECKED:
            self._checked[job] = config
        return config

    def of_job(self, master_config: DictConfig, sweep_overrides: list[str]) -> DictConfig:
        """A configuration of its own for one of many jobs."""
        overrides = list(map(parsed, sweep_overrides))
        # What is added may rest on a value that comes before it.
        if all(override.type == OverrideType.CHANGE and not override.is_hydra_override() for override in overrides):
            try:
                return self._derived(master_config, overrides)
            except (HydraException, OmegaConfBaseException):
                pass  # Hydra is asked to compose it, for the sake of its message
        return super().load_sweep_config(master_config, sweep_overrides)

    def _derived(self, master_config: DictConfig, overrides: list[Override]) -> DictConfig:
        values = [override for override in overrides if self._is_value(override)]
        choices = tuple(str(override.input_line) for override in overrides if override not in values)
        if choices not in self._composed:
            is_there = self._has_chosen(master_config, choices, overrides)
            composed = master_config if is_there else super().load_sweep_config(master_config, list(choices))
            self._composed[choices] = pickle.dumps(composed)
        config: DictConfig = pickle.loads(self._composed[choices])  # noqa: S301 -- a fifth of a deep copy's time
        for override in values:
            OmegaConf.update(config, override.key_or_group, override.value(), merge=True)
        config.hydra.overrides.task = [override.input_line for override in overrides]
        job = config.hydra.job
        job.override_dirname = get_overrides_dirname(overrides, **job.config.override_dirname)
        return config

    def _has_chosen(self, master_config: DictConfig, choices: tuple[str, ...], overrides: list[Override]) -> bool:
        """Whether the sweep's own configuration is that of the choices, with no value but those of the job."""
        given = map(parsed, master_config.hydra.overrides.task)
        fixed = [override for override in given if not override.is_sweep_override()]
        chosen = tuple(override.input_line for override in fixed if not self._is_value(override))
        # What Hydra lets a sweep leave open, ???, it refuses in a job.
        return choices == chosen and "???" not in str(choices) and all(override in overrides for override in fixed)

    def _is_value(self, override: Override) -> bool:
        """Whether it sets an option of what is chosen, rather than choosing."""
        key = override.key_or_group
        if key not in self._groups:
            self._groups[key] = "/" in key or any(source.is_group(key) for source in self.get_sources())
        return override.package is None and not self._groups[key]
