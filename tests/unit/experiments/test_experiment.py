"""One experiment in this process: what it makes, and how often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.cli.experiment import run_experiment
from experiments.config.run_config import RunConfig
from experiments.datasets import beir
from experiments.datasets.dataset import Dataset
from experiments.evaluate import evaluation, rows
from experiments.publish.files import read_summary
from experiments.replay import build, component, journal
from experiments.replay.subjects import controller


def test_the_subject_is_made_and_opened_once_and_names_the_policy(
    compose_tiny: Callable[..., dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: Counter[str] = Counter()

    class Counting(controller.ControllerSubject):
        def __init__(self) -> None:
            calls["made"] += 1

        def open(self, config: RunConfig) -> Dataset:
            calls["opened"] += 1
            return super().open(config)

        def label(self, config: object) -> str:
            return "by another name"

    monkeypatch.setattr(controller, "ControllerSubject", Counting)
    monkeypatch.setattr(component, "_callable", component._callable.__wrapped__)  # what a name stands for is remembered
    run_experiment(compose_tiny("verbosity=0"), tmp_path / "run", ["seed=0"])
    assert calls == {"made": 1, "opened": 1}
    summary = read_summary(tmp_path / "run")
    assert summary is not None
    assert (summary.policy, summary.overrides, summary.views) == ("by another name", ["seed=0"], None)
    assert (summary.conformance.outcome, summary.conformance.canonical) == ("passed", None)


@pytest.mark.parametrize(
    "options", [[], ["dataset.every=2"], ["dataset.split=null"], ["executor=joblib", "executor.n_jobs=2"]]
)
def test_files_are_the_same_wherever_columns_are_kept(
    compose_tiny: Callable[..., dict[str, Any]],
    collection: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
) -> None:
    with (collection / "queries.jsonl").open("a") as queries:
        queries.write('{"_id": "q0-unjudged", "text": "heart"}\n{"_id": "q11", "text": "ship"}\n')
    with (collection / "qrels" / "test.tsv").open("a") as qrels:
        qrels.write("q11\tship-1\t1\n")
    run_experiment(compose_tiny("verbosity=0", *options), tmp_path / "held", [])
    for read in (build._session, build._parts, build._load_dataset, build._load_measures):
        read.cache_clear()
    monkeypatch.setattr(beir, "STORED_FROM", 1)
    for module in (rows, journal, evaluation):
        monkeypatch.setattr(module, "_ROOM", 0)
    monkeypatch.setattr(evaluation, "TOGETHER", 2)
    run_experiment(compose_tiny("verbosity=0", *options), tmp_path / "stored", [])
    for name in ("run.trec", "per_query.parquet", "curve.csv", "traces.jsonl.gz"):
        assert (tmp_path / "stored" / name).read_bytes() == (tmp_path / "held" / name).read_bytes()
