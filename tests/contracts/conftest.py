"""What the contract suites share. Each suite runs over a table of factories: add a line to cover a new component."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from experiments.config.compose import compose
from experiments.config.paths import CONF

# huggingface_hub reads it once, when it is imported: no test may reach for a hub.
os.environ["HF_HUB_OFFLINE"] = "1"

NAMES = {group: sorted(path.stem for path in (CONF / group).glob("*.yaml")) for group in ("estimator", "scheduler")}


@pytest.fixture(scope="session")
def durable_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder that outlives single tests, since contract tests build the same components again and again."""
    return tmp_path_factory.mktemp("contract-cache")


@pytest.fixture(autouse=True)
def private_cache(durable_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAGTUNE_CACHE", str(durable_cache))
    return durable_cache


@cache
def _config(group: str, name: str) -> dict[str, Any]:
    return compose([f"{group}={name}"])


@pytest.fixture(params=NAMES["estimator"])
def estimator_config(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The configuration that chooses an estimator, as the harness reads it: a new conf file is covered by itself."""
    return _config("estimator", request.param)


@pytest.fixture(params=NAMES["scheduler"])
def scheduler_config(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The same of a scheduler."""
    return _config("scheduler", request.param)
