"""The presets of ``conf/experiment``: policies by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import yaml

from experiments.config.paths import CONF


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
