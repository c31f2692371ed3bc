"""What the contract suites share. Each suite runs over a table of factories: add a line to cover a new component."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# huggingface_hub reads it once, when it is imported: no test may reach for a hub.
os.environ["HF_HUB_OFFLINE"] = "1"


@pytest.fixture(scope="session")
def durable_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder that outlives single tests, since contract tests build the same components again and again."""
    return tmp_path_factory.mktemp("contract-cache")


@pytest.fixture(autouse=True)
def private_cache(durable_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAGTUNE_CACHE", str(durable_cache))
    return durable_cache
