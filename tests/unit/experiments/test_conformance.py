"""Outcomes as they are recorded and told, and golden answers as they are pinned; the suite is in tests/conformance."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.conformance import canonical as conformance
from experiments.conformance import outcomes
from experiments.conformance.canonical import open_target, pin_canonical
from experiments.conformance.outcomes import record, recorded
from experiments.publish.provenance import provenance
from experiments.replay.build import load_dataset
from ragtune.canonical.conformance import SPEC
from ragtune.canonical.conformance.fixtures import GOLDEN
from ragtune.core.errors import ConfigError

DIFFERENCES = [f"difference {i}" for i in range(7)]


def test_an_outcome_is_told_only_of_the_code_that_it_was_recorded_for(monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = {"outcome": "not checked", "spec": SPEC, "differences": []}
    assert recorded("canonical").model_dump() == unknown
    record("canonical", DIFFERENCES)
    assert recorded("canonical").model_dump() == {"outcome": "failed", "spec": SPEC, "differences": DIFFERENCES[:5]}
    record("canonical", [])
    assert recorded("canonical").outcome == "passed"
    assert recorded("decisions").outcome == "not checked"
    monkeypatch.setattr(outcomes, "code_digest", lambda: "of other code")
    assert recorded("canonical").model_dump() == unknown


def test_a_damaged_record_is_none(private_cache: Path) -> None:
    record("decisions", [])
    [file] = (private_cache / "conformance").iterdir()
    file.write_text("{")
    assert recorded("decisions").outcome == "not checked"


def test_every_run_says_what_was_recorded_and_checks_nothing(compose_tiny: Callable[..., dict[str, Any]]) -> None:
    record("canonical", DIFFERENCES)
    config = compose_tiny()
    said = provenance(config, [], load_dataset(config), {"estimator": "none"})
    assert said["conformance"]["outcome"] == "not checked"
    assert said["conformance"]["canonical"].outcome == said["tags"]["conformance_canonical"] == "failed"
    assert said["tags"]["conformance_canonical_spec"] == SPEC
    assert (said["tags"]["estimator"], said["tags"]["scheduler"]) == ("none", "greedy")


def test_pinning_writes_what_the_store_in_memory_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pinned = Path(conformance.conformance.__file__).parent / f"v{SPEC}" / GOLDEN
    (tmp_path / f"v{SPEC}").mkdir()
    monkeypatch.setattr(conformance, "files", lambda package: tmp_path)
    pin_canonical()
    assert (tmp_path / f"v{SPEC}" / GOLDEN).read_bytes() == pinned.read_bytes()


def test_answers_that_hang_on_a_tolerated_difference_are_not_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conformance, "narrow_gaps", lambda observed: ["vector/question"])
    monkeypatch.setattr(conformance, "files", lambda package: pytest.fail("pinned"))
    with pytest.raises(ConfigError, match="too near in vector/question"):
        pin_canonical()


@pytest.mark.parametrize("kind", ["memory", "postgres"])
def test_only_servers_are_asked_by_url(kind: str) -> None:
    with pytest.raises(ConfigError, match="allowed for the targets rest and mcp only"), open_target(kind, "http://x"):
        pass
