"""One experiment in this process: what it makes, and how often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.cli.experiment import run_experiment
from experiments.datasets.dataset import Dataset
from experiments.publish.files import read_summary
from experiments.replay import build
from experiments.replay.subjects import controller


def test_the_subject_is_made_and_opened_once_and_names_the_policy(
    compose_tiny: Callable[..., dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: Counter[str] = Counter()

    class Counting(controller.ControllerSubject):
        def __init__(self) -> None:
            calls["made"] += 1

        def open(self, config_json: str) -> Dataset:
            calls["opened"] += 1
            return super().open(config_json)

        def label(self, config: object) -> str:
            return "by another name"

    monkeypatch.setattr(controller, "ControllerSubject", Counting)
    monkeypatch.setattr(build, "_callable", build._callable.__wrapped__)  # what a name stands for is remembered
    run_experiment(compose_tiny("verbosity=0"), tmp_path / "run", ["seed=0"])
    assert calls == {"made": 1, "opened": 1}
    summary = read_summary(tmp_path / "run")
    assert summary is not None
    assert (summary.policy, summary.overrides, summary.views) == ("by another name", ["seed=0"], None)
    assert (summary.conformance.outcome, summary.conformance.canonical.outcome) == ("not checked", "not checked")
