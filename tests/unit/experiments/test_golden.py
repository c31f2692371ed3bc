"""Golden decisions: one file a component, and every change of one is told by name."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

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
    assert differences() == [
        f"estimator/baseline with greedy, query q14: stop is {said}, pinned is tired",
    ]
    del pinned["greedy"]["q14"]
    (decisions / BASELINE).write_text(json.dumps(pinned))
    [line] = differences()
    assert line.startswith("estimator/baseline: pinned are [")
