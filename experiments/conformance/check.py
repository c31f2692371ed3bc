"""Checks the golden decisions of a run's estimator and scheduler, once for the same code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from experiments.config.options import leaf
from experiments.config.paths import CONF
from experiments.config.sources import Sources
from experiments.config.targets import targets_of
from experiments.conformance.golden import COMPARING, COUNTERPARTS, DECISIONS, FIXTURES, differences_of
from ragtune.data.caches.diskcache import DiskCache

_FILE = "differences.json"


def conformance_of(config: Mapping[str, Any]) -> str:
    """``passed``, or ``failed`` with the first difference; and the classes that no golden decision covers."""
    found, without = [], []
    for group in COUNTERPARTS:
        name, target = leaf(config, group), str(config[group]["_target_"])
        file = CONF / group / f"{name}.yaml"
        if file.is_file() and target in targets_of([file]) and (DECISIONS / group / f"{name}.json").is_file():
            found += _differences(group, name)
        else:
            without.append(target)
    said = [f"failed: {found[0]}"] if found else ["passed"] if len(without) < len(COUNTERPARTS) else []
    return "; ".join([*said, *([f"no golden decisions for {', '.join(without)}"] if without else [])])


@cache
def _differences(group: str, name: str) -> list[str]:
    """What differs, from the cache if the same code has been checked before."""
    (other,) = COUNTERPARTS.keys() - {group}
    conf = [CONF / group / f"{name}.yaml", *(CONF / other / f"{each}.yaml" for each in COUNTERPARTS[group])]
    conf += [CONF / "scheduler" / f"{each}.yaml" for each in COMPARING]
    data = [*conf, *sorted(FIXTURES.glob("*.*")), DECISIONS / group / f"{name}.json"]
    modules = {"experiments.conformance.golden", *_SHARED, *targets_of(conf)}
    key = f"{group}/{name} {_sources().digest(sorted(modules), data)}"

    def save(found: list[str], folder: Path) -> None:
        (folder / _FILE).write_text(json.dumps(found), encoding="utf-8")

    def load(folder: Path) -> list[str]:
        known: list[str] = json.loads((folder / _FILE).read_text(encoding="utf-8"))
        return known

    return DiskCache("conformance").fetch(key, lambda: differences_of(f"{group}/{name}"), save, load)


_SHARED = ("experiments.datasets.beir", "ragtune.retrievers.runs", "ragtune.rerankers.replay")
"""Modules of the fixed inputs, which the golden decisions name in their configuration only."""


@cache
def _sources() -> Sources:
    """The code of this process, which is read once."""
    return Sources()
