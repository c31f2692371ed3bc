"""The canonical suite as the harness logs and pins it; ``tests/conformance`` has the suite itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.conformance import canonical as conformance
from experiments.conformance.canonical import check_canonical, open_target, pin_canonical
from experiments.publish.provenance import provenance
from ragtune.canonical.conformance import SPEC
from ragtune.canonical.conformance.fixtures import GOLDEN
from ragtune.core.errors import ConfigError


@pytest.fixture(autouse=True)
def forget() -> None:
    check_canonical.cache_clear()


def test_the_outcome_is_that_of_the_store_in_memory_and_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_canonical() == {"outcome": "passed", "spec": SPEC, "differences": []}
    check_canonical.cache_clear()
    monkeypatch.setattr(conformance, "run_suite", lambda target: pytest.fail("asked again"))
    assert check_canonical()["outcome"] == "passed"


def test_a_suite_that_cannot_run_fails_conformance_instead_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise OSError("no fixtures")

    monkeypatch.setattr(conformance, "memory_target", broken)
    outcome = check_canonical()
    assert (outcome["outcome"], outcome["differences"]) == ("failed", ["OSError: no fixtures"])


def test_every_run_says_how_both_suites_ended(
    compose_tiny: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from experiments.publish import provenance as module
    from experiments.replay.build import load_dataset

    monkeypatch.setattr(module, "check_golden", lambda: {"outcome": "passed", "spec": "0.55.0", "differences": []})
    monkeypatch.setattr(module, "check_canonical", lambda: {"outcome": "failed", "spec": SPEC, "differences": ["x"]})
    config = compose_tiny()
    said = provenance(config, [], load_dataset(config))
    assert said["conformance"]["outcome"] == "passed"
    assert said["conformance"]["canonical"]["outcome"] == said["tags"]["conformance_canonical"] == "failed"


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
