"""Golden answers as they are pinned; the suite is in tests/conformance."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.conformance import canonical as conformance
from experiments.conformance.canonical import open_target, pin_canonical
from ragtune.canonical.conformance import SPEC
from ragtune.canonical.conformance.fixtures import GOLDEN
from ragtune.core.errors import ConfigError


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
