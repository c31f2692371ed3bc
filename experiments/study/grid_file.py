"""Reads the grid of a study from a file of ``conf/frontier``, or of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from experiments.config.compose import register_resolvers
from experiments.config.paths import CONF
from experiments.study.grid import Grid, grid_of
from ragtune.core.arguments import did_you_mean
from ragtune.core.errors import ConfigError
from ragtune.core.plain import first_line

FOLDER = CONF / "frontier"

PLACES = ("data", "models", "graphs", "embedder")
"""Keys that only interpolations of the same file refer to: folders of collections, models and graphs, and a model."""


def load_grid(name: str, options: Sequence[str] = ()) -> Grid:
    """Read the grid of ``conf/frontier/NAME.yaml`` or of a YAML file, and change it by ``key=value`` options.

    A file that says ``base: OTHER`` replaces keys of that file, which is found in the same way.

    Raises:
        ConfigError: if the file is missing, or naming what is wrong in it.
    """
    file = _file(name)
    register_resolvers()
    try:
        loaded = OmegaConf.merge(_read(file), *map(_option, options))
        raw: Any = OmegaConf.to_container(loaded, resolve=True, throw_on_missing=True)
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
    """What the file says, on top of what its base says."""
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
