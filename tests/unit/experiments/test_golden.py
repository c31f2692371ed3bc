"""Conformance is checked, told, and never costs a result."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from experiments.conformance import golden
from experiments.conformance.golden import DECISIONS, FIXTURES, SPEC


@pytest.fixture(autouse=True)
def forget() -> None:
    golden.check_golden.cache_clear()


@pytest.fixture
def one_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"estimator": "baseline", "scheduler": "one_shot"}

    def parts(group: str, fixtures: Path) -> dict[str, Any]:
        return {names[group]: golden._config(group, names[group], fixtures)}

    monkeypatch.setattr(golden, "_parts", parts)


def test_without_its_fixtures_the_check_is_skipped_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(golden, "FIXTURES", tmp_path)
    assert golden.check_golden()["outcome"] == "skipped"


def test_a_changed_decision_is_told_with_pair_query_and_values(tmp_path: Path, one_pair: None) -> None:
    fixtures = tmp_path / "fixtures"
    shutil.copytree(FIXTURES, fixtures)
    now = golden.decide(fixtures)
    query_id, decision = next(iter(now["baseline x one_shot"].items()))
    (fixtures / DECISIONS).write_text(
        json.dumps({"baseline x one_shot": now["baseline x one_shot"] | {query_id: decision | {"stop": "tired"}}})
    )
    assert golden.differences(fixtures) == [
        f"baseline x one_shot, query {query_id}: stop is {decision['stop']}, pinned is tired"
    ]


def test_pairs_that_came_or_went_are_told(tmp_path: Path, one_pair: None) -> None:
    fixtures = tmp_path / "fixtures"
    shutil.copytree(FIXTURES, fixtures)
    (fixtures / DECISIONS).write_text('{"gone x one_shot": {}}')
    assert golden.differences(fixtures) == [
        "baseline x one_shot: not pinned",
        "gone x one_shot: pinned, but there is no such pair",
    ]


def test_the_outcome_is_computed_once_per_version_of_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(golden, "differences", lambda: calls.append(1) or [])
    assert golden.check_golden() == {"outcome": "passed", "spec": SPEC, "differences": []}
    golden.check_golden.cache_clear()
    assert golden.check_golden()["outcome"] == "passed"
    assert len(calls) == 1


def test_a_component_that_cannot_be_built_fails_conformance_instead_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise ImportError("no such name")

    monkeypatch.setattr(golden, "differences", broken)
    outcome = golden.check_golden()
    assert outcome["outcome"] == "failed"
    assert outcome["differences"] == ["ImportError: no such name"]
