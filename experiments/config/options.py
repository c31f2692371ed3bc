"""The options of conf/ and the names of policies: checks, proposals for wrong ones, and what decides the results."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import yaml

from experiments.config.paths import CONF
from ragtune.core.arguments import check_count, check_number, did_you_mean, nearest
from ragtune.core.errors import ConfigError
from ragtune.core.plain import quoted

WHERE_NOT_WHAT = ("executor", "tracking", "resume", "verbosity")
"""Keys that change where or how a run happens, never what it finds."""


def choices_of(overrides: Sequence[str]) -> dict[str, str]:
    """The overrides that decide what a run finds, by the names of their options."""
    given = dict(override.partition("=")[::2] for override in overrides)
    return {name: value for name, value in given.items() if name.partition(".")[0] not in WHERE_NOT_WHAT}


class RunConfig(Mapping[str, Any]):
    """A resolved configuration that is hashed and compared by the options that decide the results."""

    def __init__(
        self,
        options: Mapping[str, Any],
        inputs: str = "",  # digest of the input files, which may change while a process lives
        later_budgets: Sequence[Any] | None = None,  # of later jobs of a sweep that differ by one limit; None outside
    ) -> None:
        self._options, self.inputs, self.later_budgets = options, inputs, later_budgets

    @cached_property
    def key(self) -> str:
        return results_key(self._options)

    def without(self, *names: str) -> RunConfig:
        return RunConfig({name: value for name, value in self.items() if name not in names}, self.inputs)

    def replaced(self, **options: Any) -> RunConfig:
        return RunConfig({**self, **options}, self.inputs, self.later_budgets)

    def __getitem__(self, name: str) -> Any:
        return self._options[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._options)

    def __len__(self) -> int:
        return len(self._options)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunConfig) and (self.key, self.inputs) == (other.key, other.inputs)

    def __hash__(self) -> int:
        return hash((self.key, self.inputs))


def results_key(config: Mapping[str, Any]) -> str:
    """The options that decide the results, as canonical JSON."""
    what = {name: value for name, value in config.items() if name not in WHERE_NOT_WHAT}
    return json.dumps(what, sort_keys=True)


@dataclass(frozen=True)
class Preset:
    """The choices and the options of a preset, by group."""

    chosen: Mapping[str, str]
    options: Mapping[str, Mapping[str, Any]]


@lru_cache(maxsize=1)
def presets() -> dict[str, Preset]:
    """The presets by name."""
    found = {}
    for file in sorted((CONF / "experiment").glob("*.yaml")):
        preset: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
        pairs = [pair for entry in preset.get("defaults", ()) if isinstance(entry, dict) for pair in entry.items()]
        chosen = {key.removeprefix("override /"): str(choice) for key, choice in pairs}
        options = {
            group: values for group, values in preset.items() if group != "defaults" and isinstance(values, dict)
        }
        found[file.stem] = Preset(chosen, options)
    return found


def preset_with(estimator: str) -> str | None:
    """The name of the preset that chooses an estimator, its own first; None without one."""
    names = [name for name, preset in presets().items() if preset.chosen.get("estimator") == estimator]
    return min(names, key=lambda name: (name != estimator, name), default=None)


def policy_name(config: Mapping[str, Any]) -> str:
    """The preset with a policy's estimator, scheduler and order (of several, the likest in its options), or these."""
    parts = (leaf(config, "estimator"), leaf(config, "scheduler"), str(config["assembler"].get("ordering")))
    alike = {name: _set_alike(preset, config) for name, preset in presets().items() if _parts(preset) == parts}
    nearest = min(alike, key=lambda name: (-alike[name][0], alike[name][1], name), default=" + ".join(parts))
    return nearest + (f" + {leaf(config, 'expander')}" if leaf(config, "expander") != "none" else "")


def _parts(preset: Preset) -> tuple[Any, ...] | None:
    """Estimator, scheduler and order of a preset; None of one that chooses a signal, which is no part of a policy."""
    if "signal" in preset.chosen:
        return None
    order = preset.options.get("assembler", {}).get("ordering")
    return preset.chosen.get("estimator"), preset.chosen.get("scheduler"), order


def _set_alike(preset: Preset, config: Mapping[str, Any]) -> tuple[int, int]:
    """How many options of the policy's parts the configuration sets to the preset's value, and how many it sets."""
    options = [
        (group, name, value)
        for group in ("estimator", "scheduler")
        for name, value in preset.options.get(group, {}).items()
    ]
    return sum(config[group].get(name) == value for group, name, value in options), len(options)


def leaf(config: Mapping[str, Any], group: str) -> str:
    """The name of the file that was chosen from a group, e.g. ``greedy`` for ``scheduler``."""
    return str(config[group]["_target_"]).split(".")[-2]


_SLIP = 0.9

_NAMED_OTHERWISE = {"policy": "experiment", "docs": "budget"}
"""Options of the library, and their names here."""

_PLACED = re.compile(r"# @package (\w+\.\w+)\n")


def check_options(config: Mapping[str, Any]) -> None:
    """Check the values of a resolved configuration."""
    check_count("seed", config["seed"])
    if not isinstance(config["resume"], bool):
        raise ConfigError(f"resume={quoted(config['resume'])}: allowed are true and false")
    if config["verbosity"] not in (0, 1, 2):
        raise ConfigError(f"verbosity={quoted(config['verbosity'])}: allowed are 0, 1 and 2")
    groups = {name: config[name] for name in ("retrieval", "rerankers", "bootstrap", "failures")}
    strategies = config["rerankers"] if isinstance(config["rerankers"], dict) else {}
    for name, options in {**groups, **{f"rerankers.{name}": strategies[name] for name in strategies}}.items():
        if not isinstance(options, dict):
            raise ConfigError(f"{name}={quoted(options)}: allowed are options below it, e.g. {name}.NAME=VALUE")
    check_count("bootstrap.resamples", config["bootstrap"].get("resamples"), 1, 100_000)
    level = check_number("bootstrap.level", config["bootstrap"].get("level"))
    if not 0 < level < 1:
        raise ConfigError(f"bootstrap.level={level!r}: allowed is a number between 0 and 1, e.g. 0.95")
    measures = config["measures"]
    if not isinstance(measures, list) or not all(isinstance(name, str) for name in measures):
        raise ConfigError(f"measures={quoted(measures)}: allowed is a list of names, e.g. measures=[nDCG@10,AP]")


def check_names(names: Collection[str], root: str = "config") -> None:
    """Check that a configuration holds the options of ``conf/ROOT.yaml``, all of them and no other."""
    known = known_options(root)
    for key in names:
        if key not in known:
            allowed = f"allowed are {', '.join(known)}{did_you_mean(key, known)}"
            raise ConfigError(f"unknown option {key!r}: {allowed}")
    for key in known:
        if key not in names and key != "passages":  # which leaves none behind where nothing is chosen
            raise ConfigError(f"{key} was deleted, but is needed: leave '~{key}' out")


@lru_cache(maxsize=2)
def known_options(root: str = "config") -> tuple[str, ...]:
    """The first part of every option's name, from ``conf/ROOT.yaml``."""
    options: dict[str, Any] = yaml.safe_load((CONF / f"{root}.yaml").read_text(encoding="utf-8"))
    chosen = [pair for choice in options.pop("defaults") if isinstance(choice, dict) for pair in choice.items()]
    groups = [name for name, _ in chosen if " " not in name and name != "experiment"]  # which leaves no option behind
    return tuple(dict.fromkeys([*groups, *(name for name in options if name != "hydra")]))


def did_you_mean_option(name: str, groups: Sequence[str]) -> str:
    """The end of a message about an option that the chosen components lack: who has it, or a name that is like it."""
    known = {option: choices for option, choices in all_options().items() if option.partition(".")[0] in groups}
    if name in known:
        return f"; it is an option of {' or '.join(known[name])}"
    names = [*groups, "experiment", *_NAMED_OTHERWISE]  # experiment is a group without an option
    if "." not in name and (meant := nearest(name, names)):
        return f"; did you mean {_NAMED_OTHERWISE.get(meant, meant)}?"
    group, _, leaf = name.rpartition(".")
    same_leaf = [option for option in known if option.rpartition(".")[2] == leaf]
    beside = [option for option in known if option.rpartition(".")[0] == group]
    longer = [option for option in beside if set(leaf.split("_")) <= set(option.rpartition(".")[2].split("_"))]
    near = get_close_matches(name, known, n=1, cutoff=_SLIP) or get_close_matches(
        name, longer or same_leaf, n=1, cutoff=0.0
    )
    if not near:
        return did_you_mean(name, list(known))
    choices = [choice for choice in known[near[0]] if not choice.startswith("conf=")]
    whose = f" (an option of {choices[0]})" if len(choices) == 1 else ""
    return f"; did you mean {near[0]}?{whose}"


def without_dashes(name: str) -> str:
    """The end of a message about an option that was given with dashes."""
    known = known_options()
    meant = f"; did you mean {name}?" if name in known else did_you_mean_option(name, known)
    return re.sub(r"did you mean ([\w.]+)\?", r"did you mean \1=VALUE?", meant)


@lru_cache(maxsize=1)
def all_options() -> dict[str, list[str]]:
    """Every option of ``conf/`` by its full name, with the choices that have it."""
    found: dict[str, list[str]] = {}
    for file in [CONF / "config.yaml", *sorted(CONF.glob("*/*.yaml"))]:
        for name in _names(file):
            found.setdefault(name, []).append(f"{file.parent.name}={file.stem}")
    return found


def _names(file: Path) -> Iterator[str]:
    text = file.read_text(encoding="utf-8")
    content: dict[str, Any] = yaml.safe_load(text) or {}
    placed = _PLACED.match(text)  # one of several of a group has a name of its own
    group = "" if file.parent == CONF else f"{placed[1] if placed else file.parent.name}."
    for default in content.pop("defaults", ()):
        # "/acquisition@acquisition: NAME" puts the options of a group's file below this component.
        for source, choice in default.items() if isinstance(default, dict) else ():
            folder, _, place = source.strip("/").partition("@")
            if place and "override" not in source and (CONF / folder / f"{choice}.yaml").is_file():
                below = _names(CONF / folder / f"{choice}.yaml")
                yield from (f"{group}{place}{name.removeprefix(folder)}" for name in below)
    yield from _dotted({key: value for key, value in content.items() if key not in ("hydra", "_target_")}, group)


def _dotted(options: dict[str, Any], before: str) -> Iterator[str]:
    for key, value in options.items():
        yield f"{before}{key}"
        if isinstance(value, dict):
            yield from _dotted({str(name): below for name, below in value.items()}, f"{before}{key}.")
