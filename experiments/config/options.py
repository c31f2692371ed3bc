"""Checks of the options that belong to no component."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

import yaml

from experiments.config.names import moved
from experiments.config.paths import CONF
from ragtune.core.arguments import check_count, check_number
from ragtune.core.errors import ConfigError
from ragtune.core.plain import quoted


def check_options(config: Mapping[str, Any]) -> None:
    """Check the values of a resolved configuration.

    Args:
        config: plain data, its names checked.

    Raises:
        ConfigError: naming the option, its value and what is allowed.
    """
    check_count("seed", config["seed"])
    for name in ("resume", "dry_run"):
        if not isinstance(config[name], bool):
            raise ConfigError(f"{name}={quoted(config[name])}: allowed are true and false")
    if config["verbosity"] not in (0, 1, 2):
        raise ConfigError(f"verbosity={quoted(config['verbosity'])}: allowed are 0, 1 and 2")
    groups = {name: config[name] for name in ("retrieval", "rerankers", "bootstrap", "failures", "sweep")}
    strategies = config["rerankers"] if isinstance(config["rerankers"], dict) else {}
    for name, options in {**groups, **{f"rerankers.{name}": strategies[name] for name in strategies}}.items():
        if not isinstance(options, dict):
            raise ConfigError(f"{name}={quoted(options)}: allowed are options below it, e.g. {name}.NAME=VALUE")
    if "depth" in config["retriever"]:
        raise ConfigError(str(moved("retriever.depth")))
    check_count("bootstrap.resamples", config["bootstrap"].get("resamples"), 1, 100_000)
    level = check_number("bootstrap.level", config["bootstrap"].get("level"))
    if not 0 < level < 1:
        raise ConfigError(f"bootstrap.level={level!r}: allowed is a number between 0 and 1, e.g. 0.95")
    baseline = config["sweep"].get("baseline")
    if not isinstance(baseline, str | int) or isinstance(baseline, bool) or not str(baseline).strip():
        allowed = "'fixed depth', the number of a job, or its choices, e.g. sweep.baseline=estimator=gar"
        raise ConfigError(f"sweep.baseline={quoted(baseline)}: allowed are {allowed}")
    measures = config["measures"]
    if not isinstance(measures, list) or not all(isinstance(name, str) for name in measures):
        raise ConfigError(f"measures={quoted(measures)}: allowed is a list of names, e.g. measures=[nDCG@10,AP]")


def check_names(names: Collection[str], root: str) -> None:
    """Check that a configuration holds the options of ``conf/ROOT.yaml``, all of them and no other.

    Args:
        names: keys of the configuration.
        root: the file of conf/ that the configuration was composed from.

    Raises:
        ConfigError: naming the option.
    """
    known = known_options(root)
    for key in names:
        if key not in known:
            from ragtune.core.arguments import did_you_mean

            known_ones = f"unknown option {key!r}: allowed are {', '.join(known)}{did_you_mean(key, known)}"
            raise ConfigError(moved(key) or known_ones)
    for key in known:
        if key not in names:
            raise ConfigError(f"{key} was deleted, but is needed: leave '~{key}' out")


@lru_cache(maxsize=2)
def known_options(root: str = "config") -> tuple[str, ...]:
    """The first part of every option's name, from ``conf/ROOT.yaml`` and the root files that it includes."""
    text = (CONF / f"{root}.yaml").read_text(encoding="utf-8")
    options: dict[str, Any] = yaml.safe_load(text)
    defaults = options.pop("defaults")
    included = [choice for choice in defaults if isinstance(choice, str) and choice != "_self_"]
    # A group of which nothing is chosen, such as `experiment`, leaves no option of its name behind.
    chosen = [pair for choice in defaults if isinstance(choice, dict) for pair in choice.items()]
    groups = [name for name, choice in chosen if " " not in name and choice is not None]
    inherited = [option for name in included for option in known_options(name)]
    return tuple(dict.fromkeys([*inherited, *groups, *(name for name in options if name != "hydra")]))
