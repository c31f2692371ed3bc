"""A small collection through the harness, without a process of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from experiments.config.compose import compose, results_key
from experiments.replay.build import session_for
from experiments.replay.inputs import identity
from experiments.replay.journal import Journal
from experiments.replay.replay import replay


@pytest.fixture
def compose_tiny(collection: Path) -> Callable[..., dict[str, Any]]:
    """The configuration of a run on the small collection, overrides added."""

    def make(*overrides: str) -> dict[str, Any]:
        fixed = ["dataset=beir", f"dataset.path={collection}", f"dataset.scores={collection}/scores.run"]
        first_stage = ["retriever=runs", f"retriever.paths={collection}/bm25.run", "estimator=baseline"]
        return compose([*fixed, *first_stage, "tracking=none", *overrides])

    return make


@pytest.fixture
def replayed(compose_tiny: Callable[..., dict[str, Any]], tmp_path: Path) -> Callable[..., SimpleNamespace]:
    """Configuration, dataset and records of such a run."""

    def run(*overrides: str) -> SimpleNamespace:
        config = compose_tiny(*overrides)
        folder = tmp_path / "journal"
        folder.mkdir(exist_ok=True)
        with Journal(folder, identity(config), resume=False) as journal:
            records = replay(config, journal, lambda done, total: None)
        return SimpleNamespace(config=config, dataset=session_for(results_key(config)).dataset, records=records)

    return run
