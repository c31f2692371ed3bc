"""A small frontier of the shipped collection, by the real command."""

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

SMALL = ("--policies=settled", "budgets=[5,10]", "resamples=100", "permutations=499", "jobs=1")
"""Two policies, two budgets."""


@pytest.fixture(scope="session")
def frontier(run_here: Callable[..., SimpleNamespace], tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """The finished small frontier: folder, the words of the command, and what it said."""
    cwd = tmp_path_factory.mktemp("frontier")
    ended = run_here(*SMALL, script="scripts/frontier.py", cwd=cwd)
    assert ended.code == 0, ended.err
    return SimpleNamespace(folder=cwd / "results" / "frontier" / "demo", words=SMALL, **vars(ended))


@pytest.fixture(scope="session")
def two_runs(
    run_here: Callable[..., SimpleNamespace], empty_store: Path, tmp_path_factory: pytest.TempPathFactory
) -> SimpleNamespace:
    """Two finished runs of the shipped collection; the second is tracked in a store of its own."""
    cwd = tmp_path_factory.mktemp("runs")
    uri = f"sqlite:///{shutil.copy(empty_store, cwd)}"
    fixed = ("experiment=fixed_depth", "tracking=none")
    for folder, overrides in (("fixed", fixed), ("ours", ("experiment=settled",))):
        ended = run_here(*overrides, "budget=tight", f"hydra.run.dir={folder}", cwd=cwd, MLFLOW_TRACKING_URI=uri)
        assert ended.code == 0, ended.err
    return SimpleNamespace(cwd=cwd, uri=uri, fixed=cwd / "fixed", ours=cwd / "ours")
