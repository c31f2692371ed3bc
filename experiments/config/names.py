"""Names of options and of policies, which are the names of presets in ``conf/experiment``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import yaml

from experiments.config.paths import CONF

MOVED = {"retriever.depth": "retrieval.original_query_depth", "plan": "retrieval"}
"""New names of renamed options, by their former names."""


@dataclass(frozen=True)
class Preset:
    """What a preset sets.

    Attributes:
        chosen: choices by group, e.g. ``{"estimator": "gar", "scheduler": "greedy"}``.
        options: options by group, e.g. ``{"assembler": {"ordering": "posterior"}}``.
    """

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


def moved(name: str) -> str | None:
    """The message of an error for the former name of an option; None for any other name."""
    for old, new in MOVED.items():
        if name == old or name.startswith(f"{old}."):
            return f"unknown option {name!r}: it is {new}{name.removeprefix(old)} now"
    return None


def policy_name(config: Mapping[str, Any]) -> str:
    """The name of a policy in tables, legends, studies and MLflow: the preset with its estimator, scheduler and order.

    Without such a preset, the policy is named by these parts. An expander is added. Where two presets share the parts,
    the options that they set decide.
    """
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
