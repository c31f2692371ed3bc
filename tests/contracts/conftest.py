"""What the contract suites share. Each suite runs over a table of factories: add a line to cover a new component."""

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hydra.utils import instantiate

from experiments.config.compose import composed, plain
from experiments.config.paths import CONF
from experiments.replay.component import complete

Make = Callable[..., Any]

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
def _files(group: str) -> Any:
    """The conf files of a group by name; Hydra composes all of them at once."""
    return plain(composed([f"+{group}@files.{name}={name}" for name in NAMES[group]]))["files"]


@cache
def _recipe(group: str, name: str) -> Make:
    """What the harness makes of a conf file, again and again."""
    made = instantiate({**_files(group)[name], "_partial_": True}, _convert_="all")
    return lambda **resources: complete(made, resources)


@pytest.fixture(params=NAMES["estimator"])
def new_estimator(request: pytest.FixtureRequest) -> Make:
    """Makes the estimator of a conf file from resources: a new conf file is covered by itself."""
    return _recipe("estimator", request.param)


@pytest.fixture
def heard_estimators() -> list[Make]:
    """Makers of estimators that a scheduler listens to: a belief, a limit of the batch, a window."""
    return [_recipe("estimator", name) for name in ("uncertainty", "gar", "sliding")]


@pytest.fixture(params=NAMES["scheduler"])
def new_scheduler(request: pytest.FixtureRequest) -> Make:
    """The same of a scheduler."""
    return _recipe("scheduler", request.param)
