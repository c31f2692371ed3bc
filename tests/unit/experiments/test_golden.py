"""Golden decisions: one file a component, and every change of one is told by name."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from experiments.conformance import golden
from experiments.conformance.golden import COMPARING, COUNTERPARTS, FIXTURES, Decisions, decide, differences, pin

BASELINE = Path("decisions", "estimator", "baseline.json")


@pytest.fixture
def fixtures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the golden files, in a world whose only component is ``estimator=baseline``."""
    monkeypatch.setattr(golden, "components", lambda: ["estimator/baseline"])
    folder = tmp_path / "fixtures"
    shutil.copytree(FIXTURES, folder, ignore=shutil.ignore_patterns("decisions"))
    (folder / BASELINE).parent.mkdir(parents=True)
    shutil.copy(FIXTURES / BASELINE, folder / BASELINE)
    return folder


def test_a_component_is_pinned_beside_the_counterparts_of_its_group_one_line_a_query() -> None:
    pinned = {f"{file.parent.name}/{file.stem}" for file in (FIXTURES / "decisions").glob("*/*")}
    assert pinned == set(golden.components())
    for component in pinned:
        text = (FIXTURES / "decisions" / f"{component}.json").read_text()
        decisions: Decisions = json.loads(text)
        assert tuple(decisions) in (COUNTERPARTS[component.split("/")[0]], COMPARING)
        assert len(text.splitlines()) <= 2 + sum(len(queries) + 2 for queries in decisions.values())


def test_pinning_writes_what_is_decided_and_takes_away_what_is_gone(fixtures: Path) -> None:
    before = (fixtures / BASELINE).read_bytes()
    gone = fixtures / "decisions" / "scheduler" / "gone.json"
    gone.parent.mkdir()
    gone.write_text("{}")
    (fixtures / BASELINE).unlink()
    assert differences(fixtures) == [
        "scheduler/gone: pinned, but there is no such component",
        "estimator/baseline: not pinned: ragtune conformance --update pins it",
    ]
    pin(fixtures)
    assert (fixtures / BASELINE).read_bytes() == before
    assert not gone.exists()
    assert differences(fixtures) == []


def test_a_changed_decision_is_told_with_component_query_and_values(fixtures: Path) -> None:
    pinned = json.loads((fixtures / BASELINE).read_text())
    said = pinned["greedy"]["q14"]["stop"]
    pinned["greedy"]["q14"]["stop"] = "tired"
    (fixtures / BASELINE).write_text(json.dumps(pinned))
    assert differences(fixtures) == [
        f"estimator/baseline with greedy, query q14: stop is {said}, pinned is tired",
    ]
    del pinned["greedy"]["q14"]
    (fixtures / BASELINE).write_text(json.dumps(pinned))
    [line] = differences(fixtures)
    assert line.startswith("estimator/baseline: pinned are [")


def test_a_component_that_cannot_be_built_is_a_difference(fixtures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(config: object) -> None:
        raise ImportError("no such name")

    monkeypatch.setattr(golden, "build_session", broken)
    assert differences(fixtures) == ["estimator/baseline: ImportError: no such name"]
    with pytest.raises(ImportError):
        decide("estimator/baseline", fixtures)
