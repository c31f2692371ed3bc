"""Names of options, of choices and of policies."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import yaml

from experiments.config.paths import CONF

MOVED = {"retriever.depth": "retrieval.original_query_depth", "plan": "retrieval", "policy": "rerank_stage"}
"""New names of renamed options, by their former names."""


def moved(name: str) -> str | None:
    """The message of an error for the former name of an option; None for any other name."""
    for old, new in MOVED.items():
        if name == old or name.startswith(f"{old}."):
            return f"unknown option {name!r}: it is {new}{name.removeprefix(old)} now"
    return None


def policy_name(config: Mapping[str, Any]) -> str:
    """The one name of a policy, in tables, legends, studies and MLflow: its preset's, for whoever chose the parts.

    A policy whose estimator, scheduler and order are those of no preset is named by these parts. An expander is added.
    Where two presets share the parts, the options that they set decide.
    """
    parts = (leaf(config, "estimator"), leaf(config, "scheduler"), str(config["assembler"].get("ordering")))
    presets = {name: options for name, (chosen, options) in _presets().items() if chosen == parts}
    set_alike = {name: _set_alike(options, config) for name, options in presets.items()}
    nearest = min(presets, key=lambda name: (-set_alike[name], len(presets[name]), name), default=" + ".join(parts))
    return nearest + (f" + {leaf(config, 'expander')}" if leaf(config, "expander") != "none" else "")


@lru_cache(maxsize=1)
def _presets() -> dict[str, tuple[tuple[str, str, str], dict[str, Any]]]:
    """Estimator, scheduler and order of each preset, and the options that it sets; those with a signal left out."""
    found = {}
    for file in sorted((CONF / "experiment").glob("*.yaml")):
        preset = yaml.safe_load(file.read_text(encoding="utf-8"))
        chosen = {key.removeprefix("override /"): name for entry in preset["defaults"] for key, name in entry.items()}
        if "signal" not in chosen:
            options = {
                f"{group}.{name}": value
                for group in ("estimator", "scheduler")
                for name, value in preset.get(group, {}).items()
            }
            found[file.stem] = ((chosen["estimator"], chosen["scheduler"], preset["assembler"]["ordering"]), options)
    return found


def _set_alike(options: Mapping[str, Any], config: Mapping[str, Any]) -> int:
    """How many of the options the configuration sets to the same value."""
    named = (name.split(".") for name in options)
    return sum(config[group].get(name) == value for (group, name), value in zip(named, options.values(), strict=True))


def leaf(config: Mapping[str, Any], group: str) -> str:
    """The name of the file that was chosen from a group, e.g. ``greedy`` for ``scheduler``."""
    return str(config[group]["_target_"]).split(".")[-2]
