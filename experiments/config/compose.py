"""From Hydra's configuration to plain, resolved, checked data.

What needs the library is imported where it is used, so that ``--help`` is answered at once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException, OverrideParseException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from experiments.config.jobs import JobConfigs
from experiments.config.names import moved
from experiments.config.overrides import spelled_out
from experiments.config.paths import CONF, SHIPPED


def register_resolvers() -> None:
    """Make ``${shipped:}``, the folder of the demo collection, known to OmegaConf; harmless to call again."""
    OmegaConf.register_new_resolver("shipped", lambda: str(SHIPPED), replace=True)


def compose(overrides: Sequence[str]) -> dict[str, Any]:
    """The resolved configuration that ``ragtune run OVERRIDES`` would use, without running anything.

    Args:
        overrides: as on the command line.

    Raises:
        ConfigError: on an unknown option or component, or a missing value.
    """
    return resolve(composed(overrides))


def composed(overrides: Sequence[str], root: str = "config", command: str = "ragtune run") -> DictConfig:
    """The unresolved configuration of ``conf/ROOT.yaml`` with overrides.

    Args:
        overrides: as on the command line.
        root: the file of conf/ to begin with.
        command: what the message of an error says can be asked for help.

    Raises:
        ConfigError: on an unknown option or component.
    """
    from ragtune.core.errors import ConfigError

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
    """The configuration as plain data, every interpolation resolved, the harness's own options checked.

    Raises:
        ConfigError: naming the option that is missing (``???``), deleted, unknown or out of range.
    """
    from experiments.config.options import check_names, check_options

    # First, since what is deleted may be referred to by what is not.
    check_names([str(name) for name in cfg])
    config = plain(cfg)
    check_options(config)
    return config


def plain(cfg: DictConfig) -> dict[str, Any]:
    """The configuration as plain data, every interpolation resolved.

    Raises:
        ConfigError: naming the option that is missing (``???``).
    """
    from ragtune.core.errors import ConfigError

    try:
        data: dict[str, Any] = OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)  # type: ignore[assignment]
    except MissingMandatoryValue as error:
        key = error.full_key or "an option"
        raise ConfigError(f"{key} is missing: give it on the command line, {key}=VALUE") from None
    except OmegaConfBaseException as error:
        where = f"{error.full_key}: " if error.full_key else ""
        raise ConfigError(f"the configuration cannot be resolved: {where}{str(error).splitlines()[0]}") from None
    return data


def readable(error: BaseException, command: str = "ragtune run") -> str:
    """The message of an error of Hydra on one line, without what only Hydra's developers need."""
    from ragtune.core.errors import MissingExtraError

    if isinstance(error, OverrideParseException):
        return f"cannot parse {error.override!r}: {error.message.splitlines()[0]}; options are given as NAME=VALUE"
    if isinstance(error, TypeError):
        return f"the options cannot be composed ({error}): {_BY_NAME}"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if lines[0].startswith("Could not override"):
        name = lines[0].removeprefix("Could not override").split()[0].strip("'.")
        if now := moved(name):
            return now
        from experiments.config.options import did_you_mean_option, known_options

        if name in known_options():
            return f"the option {name!r} cannot be written out: {_BY_NAME}"
        help_lists = f"{command} --help lists the options of the components chosen"
        return f"unknown option {name!r}: {help_lists}{did_you_mean_option(name, known_options())}"
    if "hydra/sweeper/optuna" in lines[0]:
        return str(MissingExtraError("hydra/sweeper=tune", "optuna"))
    if lines[0].startswith("Config group override must be"):
        return f"{lines[0]}: {_BY_NAME}"
    noise = ("See ", "Set the environment", "Config search path", "provider=")
    return " ".join(line for line in lines if not line.startswith(noise)) + _nearest_choice(lines)


_BY_NAME = "a group is chosen by a name, GROUP=NAME"


def _nearest_choice(lines: Sequence[str]) -> str:
    """What may have been meant where Hydra lists the choices of a group."""
    wanted = re.search(r"Could not find '(?:.*/)?(.+)'", lines[0])
    listed = next((i for i, line in enumerate(lines) if line.startswith("Available options")), None)
    if wanted is None or listed is None:
        return ""
    from ragtune.core.arguments import did_you_mean

    return did_you_mean(wanted[1], lines[listed + 1 :])
