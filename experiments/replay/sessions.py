"""Sessions of a process: each is built once, and jobs of a sweep that differ by their budget share their parts."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from experiments.datasets.dataset import Dataset
from experiments.replay.build import NO_PARTS, Session, controller_of, unlimited_parts
from experiments.replay.component import component
from ragtune.core.interfaces import BaseReranker


@lru_cache(maxsize=2)
def session_for(config_json: str) -> Session:
    """The session of a configuration in JSON, which is built once per process."""
    config = json.loads(config_json)
    budget = component(config, "budget")
    alike = {key: value for key, value in config.items() if key not in NO_PARTS}
    dataset, rerankers, parts = _parts(json.dumps(alike, sort_keys=True))
    parts = {**parts, "budget": budget}
    return Session(dataset, controller_of(config, parts, rerankers), rerankers, parts)


@lru_cache(maxsize=1)
def _parts(alike_json: str) -> tuple[Dataset, dict[str, BaseReranker], dict[str, Any]]:
    return unlimited_parts(json.loads(alike_json))
