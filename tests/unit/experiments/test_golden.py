"""Golden decisions: one file a component, every change of one is told by name, and a run checks those it uses."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.cli import experiment
from experiments.config.compose import compose
from experiments.conformance import golden
from experiments.conformance.golden import COMPARING, COUNTERPARTS, DECISIONS, Decisions, differences, pin

BASELINE = Path("estimator", "baseline.json")


@pytest.fixture
def decisions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the golden file of the only component, ``estimator=baseline``."""
    monkeypatch.setattr(golden, "components", lambda: ["estimator/baseline"])
    monkeypatch.setattr(golden, "DECISIONS", tmp_path)
    (tmp_path / BASELINE).parent.mkdir()
    shutil.copy(DECISIONS / BASELINE, tmp_path / BASELINE)
    return tmp_path


def test_a_component_is_pinned_beside_the_counterparts_of_its_group_one_line_a_query() -> None:
    pinned = {f"{file.parent.name}/{file.stem}" for file in DECISIONS.glob("*/*")}
    assert pinned == set(golden.components())
    for component in pinned:
        text = (DECISIONS / f"{component}.json").read_text()
        pinned_decisions: Decisions = json.loads(text)
        assert tuple(pinned_decisions) in (COUNTERPARTS[component.split("/")[0]], COMPARING)
        assert len(text.splitlines()) <= 2 + sum(len(queries) + 2 for queries in pinned_decisions.values())


def test_pinning_writes_what_is_decided_and_takes_away_what_is_gone(decisions: Path) -> None:
    before = (decisions / BASELINE).read_bytes()
    gone = decisions / "scheduler" / "gone.json"
    gone.parent.mkdir()
    gone.write_text("{}")
    (decisions / BASELINE).unlink()
    assert differences() == [
        "scheduler/gone: pinned, but there is no such component",
        "estimator/baseline: not pinned: ragtune conformance --update pins it",
    ]
    pin()
    assert (decisions / BASELINE).read_bytes() == before
    assert not gone.exists()
    assert differences() == []


def test_a_changed_decision_is_told_with_component_query_and_values(decisions: Path) -> None:
    pinned = json.loads((decisions / BASELINE).read_text())
    said = pinned["greedy"]["q14"]["stop"]
    pinned["greedy"]["q14"]["stop"] = "tired"
    (decisions / BASELINE).write_text(json.dumps(pinned))
    assert differences() == [f"estimator/baseline with greedy, query q14: stop is {said}, pinned is tired"]
    del pinned["greedy"]["q14"]
    (decisions / BASELINE).write_text(json.dumps(pinned))
    [line] = differences()
    assert line.startswith("estimator/baseline: pinned are [")


OPTIONS = ["estimator=baseline", "scheduler=greedy", "budget=5", "tracking=none", "dataset.every=10"]


@pytest.fixture(autouse=True)
def unchecked() -> Iterator[None]:
    golden._differences.cache_clear()
    yield
    golden._differences.cache_clear()


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
