"""The presets of ``conf/experiment``: policies by name."""

from __future__ import annotations

from functools import lru_cache

import yaml

from experiments.config.paths import CONF


@lru_cache(maxsize=1)
def presets() -> dict[str, dict[str, str]]:
    """What each preset chooses, by its name: choices by group, e.g. ``{"estimator": "gar", "scheduler": "greedy"}``."""
    found = {}
    for file in sorted((CONF / "experiment").glob("*.yaml")):
        defaults = yaml.safe_load(file.read_text(encoding="utf-8")).get("defaults", ())
        chosen = [pair for default in defaults if isinstance(default, dict) for pair in default.items()]
        found[file.stem] = {key.removeprefix("override /"): str(choice) for key, choice in chosen}
    return found


def preset_with(estimator: str) -> str | None:
    """The name of the preset that chooses an estimator, its own first; None without one."""
    names = [name for name, chosen in presets().items() if chosen.get("estimator") == estimator]
    return min(names, key=lambda name: (name != estimator, name), default=None)
