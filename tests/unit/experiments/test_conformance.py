"""What runs check of their own code; the suite is in tests/conformance."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from experiments.cli.experiment import provenance, run_experiment
from experiments.config.compose import compose
from experiments.config.paths import PROJECT_ROOT
from experiments.config.sources import Sources
from experiments.conformance import check
from experiments.conformance.check import conformance_of
from experiments.publish.described import tags
from experiments.publish.files import read_summary
from experiments.replay.build import load_dataset
from ragtune.canonical.conformance import SPEC

Compose = Callable[..., dict[str, Any]]
Decide = Callable[[], list[str]]


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the code, older than this process, that the checks look at."""
    copied = tmp_path / "checkout"
    for package in ("ragtune", "experiments"):
        shutil.copytree(PROJECT_ROOT / package, copied / package, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(check, "_STARTED_NS", time.time_ns() + 10**12)
    return copied


@pytest.fixture
def decide(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Decide]:
    """Checks greedy batches by the first stage's order as a new process would; gives the components that decided."""
    decided: list[str] = []
    config = compose(["estimator=baseline", "scheduler=greedy"])
    monkeypatch.setattr(check, "differences_of", lambda component: decided.append(component) or [])

    def run() -> list[str]:
        decided.clear()
        monkeypatch.setattr(check, "_sources", partial(Sources, checkout))
        check.check_decisions.cache_clear()
        assert conformance_of(config).line == "passed"
        return list(decided)

    yield run
    check.check_decisions.cache_clear()


def test_a_run_checks_its_components_once_for_the_same_code(decide: Decide) -> None:
    assert decide() == ["estimator/baseline", "scheduler/greedy"]
    assert decide() == []


@pytest.mark.parametrize(
    ("file", "again"),
    [
        ("ragtune/core/pool/ordering.py", ["estimator/baseline", "scheduler/greedy"]),
        # of the second estimator that the scheduler is pinned with
        ("ragtune/estimators/posterior/_posterior.py", ["scheduler/greedy"]),
        ("ragtune/schedulers/settled.py", ["estimator/baseline"]),
        ("ragtune/acquisitions/upper_confidence.py", ["estimator/baseline", "scheduler/greedy"]),  # named in conf/ only
        ("ragtune/estimators/graph/gar.py", []),
    ],
)
def test_an_edit_is_checked_by_the_components_that_import_it(
    decide: Decide, checkout: Path, file: str, again: list[str]
) -> None:
    decide()
    with (checkout / file).open("a") as code:
        code.write("# edited\n")
    assert decide() == again
    assert decide() == []


def test_a_damaged_cache_costs_a_check(decide: Decide, private_cache: Path) -> None:
    decide()
    for file in private_cache.glob("conformance.sqlite*"):
        file.unlink()
    (private_cache / "conformance.sqlite").write_text("{")
    assert decide() == ["estimator/baseline", "scheduler/greedy"]


def test_a_failed_check_is_a_warning_a_tag_and_in_the_summary(
    compose_tiny: Compose, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "with x: stop is a, pinned is b"
    monkeypatch.setattr(check, "check_decisions", lambda component: [f"{component} {said}"] * 4)
    run_experiment(compose_tiny("verbosity=1"), tmp_path / "run", [])
    first = "estimator/baseline with x: stop is a, pinned is b"
    assert f"warning: conformance: failed: {first}" in " ".join(capsys.readouterr().out.split())
    summary = read_summary(tmp_path / "run")
    assert summary is not None
    assert (summary.conformance.outcome, len(summary.conformance.differences)) == ("failed", 5)
    assert tags(summary, {})["conformance"] == f"failed: {first}"
    for folder in ("silent", "again"):  # as the jobs of a sweep are
        run_experiment(compose_tiny("verbosity=0"), tmp_path / folder, [])
    assert capsys.readouterr().err.count(f"warning: conformance: failed: {first}\n") == 1


def test_a_run_says_which_components_have_no_golden_decisions(compose_tiny: Compose) -> None:
    config = compose_tiny()
    own = {**config, "estimator": {"_target_": "mine.policy.Policy"}}
    found = conformance_of(own)
    assert (found.outcome, found.checked) == ("passed", ["scheduler/greedy"])
    assert found.line == "passed; no golden decisions for mine.policy.Policy"
    found = conformance_of({**own, "scheduler": {"_target_": "mine.order.Order"}})
    none = "no golden decisions for mine.policy.Policy, mine.order.Order"
    assert (found.outcome, found.line) == ("no golden decisions", none)
    thompson = compose_tiny("scheduler=settled", "acquisition@scheduler.acquisition=thompson")
    said = "passed; no golden decisions for ragtune.acquisitions.thompson.ThompsonAcquisition"
    assert conformance_of(thompson).line == said
    renamed = {"_target_": "mine.baseline.BaselineEstimator"}  # another class in a file of the same name
    assert conformance_of({**config, "estimator": renamed}).without == ["mine.baseline.BaselineEstimator"]


def test_the_canonical_blocks_are_checked_by_runs_that_have_any(
    compose_tiny: Compose, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "check_canonical", lambda: ["bm25/empty: another answer"])
    config = compose_tiny()
    assert conformance_of(config).canonical is None
    blocks = {**config, "retriever": {"_target_": "ragtune.canonical.retrievers.postgres.PostgresRetriever"}}
    said = provenance(blocks, [], load_dataset(config))
    assert said["tags"]["conformance_canonical"] == "failed: bm25/empty: another answer"
    assert said["tags"]["conformance_canonical_spec"] == SPEC
    assert said["conformance"].warnings == ["conformance of the canonical blocks: failed: bm25/empty: another answer"]
