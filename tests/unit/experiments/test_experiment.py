"""One experiment in this process: what it makes, and how often."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.cli.experiment import run_experiment
from experiments.datasets import beir
from experiments.evaluate import baselines, files
from experiments.replay import build, journal


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
    for module in (files, journal):
        monkeypatch.setattr(module, "_ROOM", 0)
    monkeypatch.setattr(baselines, "TOGETHER", 2)
    run_experiment(compose_tiny("verbosity=0", *options), tmp_path / "stored", [])
    for name in ("run.trec", "per_query.parquet", "curve.csv", "traces.jsonl.gz"):
        assert (tmp_path / "stored" / name).read_bytes() == (tmp_path / "held" / name).read_bytes()
