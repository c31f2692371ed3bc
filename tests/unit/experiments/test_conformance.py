"""Each run checks the golden decisions of its own estimator and scheduler."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.cli import experiment
from experiments.config.compose import compose
from experiments.conformance import golden

OPTIONS = ["estimator=baseline", "scheduler=greedy", "budget=5", "tracking=none", "dataset.every=10"]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("RAGTUNE_CACHE", str(tmp_path / "cache"))
    golden._differences.cache_clear()
    yield
    golden._differences.cache_clear()
    experiment._warn_once.cache_clear()


def run(folder: Path) -> str:
    folder.mkdir()
    experiment.run_experiment(compose(OPTIONS), folder, OPTIONS)
    return str(json.loads((folder / "summary.json").read_text())["tags"]["conformance"])


def test_a_run_reports_the_golden_decisions_of_its_components(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path / "run") == "passed"
    assert "conformance: passed\n" in capsys.readouterr().out


def test_a_failure_is_a_warning_with_the_first_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(golden, "differences_of", lambda component: [f"{component}: charged is 1", "more"])
    outcome = run(tmp_path / "run")
    assert outcome.startswith("failed: ")
    assert ": charged is 1" in outcome
    assert "warning: conformance: failed: " in capsys.readouterr().out


def test_the_same_code_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    decided: list[str] = []
    monkeypatch.setattr(golden, "differences_of", lambda component: decided.append(component) or [])
    config = compose(OPTIONS)
    for _ in range(2):
        golden._differences.cache_clear()  # as a new process would begin
        assert golden.conformance_of(config) == "passed"
    assert sorted(decided) == ["estimator/baseline", "scheduler/greedy"]


def test_a_class_of_ones_own_is_named() -> None:
    config = compose(OPTIONS)
    own = {**config["scheduler"], "_target_": "mine.patience.Patience"}
    assert (
        golden.conformance_of({**config, "scheduler": own}) == "passed; no golden decisions for mine.patience.Patience"
    )
