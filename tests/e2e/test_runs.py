"""``ragtune runs`` over a real store, with runs of the real command line."""

from __future__ import annotations

import argparse
import csv
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from experiments.commands import runs
from ragtune.core.errors import ConfigError

Run = Callable[..., SimpleNamespace]


@pytest.fixture
def ask(capfd: pytest.CaptureFixture[str]) -> Callable[..., SimpleNamespace]:
    """What the command prints, in words and read as CSV."""

    def call(*words: str) -> SimpleNamespace:
        parser = argparse.ArgumentParser()
        runs.add_arguments(parser)
        capfd.readouterr()
        assert runs.run(parser.parse_args(words)) == 0
        out, err = capfd.readouterr()
        return SimpleNamespace(out=out, err=err, rows=list(csv.DictReader(io.StringIO(out))))

    return call


def test_tracked_runs_are_listed_ranked_and_told_apart(
    main: Run,
    ask: Callable[..., SimpleNamespace],
    tiny: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    empty_store: Path,
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    with pytest.raises(ConfigError, match=r"no runs are tracked at sqlite:.*: make one with python run\.py"):
        ask("list")
    assert not (tmp_path / "mlflow.db").exists()

    shutil.copy(empty_store, tmp_path)
    sweep = [*tiny[:-1], "estimator=baseline,score_oracle", "budget=2", "hydra.sweep.dir=sweep", "verbosity=0"]
    assert main("-m", *sweep, tracked=True).code == 0
    assert main(*tiny, "budget=3calls", "hydra.run.dir=single", "seed=7", tracked=True).code == 0

    # A list: newest first, filtered, sorted by a measure, and for programs. A policy of no preset has its parts' names.
    baseline, oracle_policy = "baseline + greedy + posterior", "score_oracle + greedy + posterior"
    listed = ask("list", "--format", "csv").rows
    assert [row["policy"] for row in listed] == [baseline, oracle_policy, baseline]
    assert listed[0]["budget"] == "3 calls"
    summary = json.loads(Path("single/summary.json").read_text())
    assert (listed[0]["run_id"], float(listed[0]["nDCG@10"])) == (
        summary["mlflow_run_id"],
        summary["measures"]["nDCG@10"],
    )
    by_measure = ask("list", "--sort", "nDCG_10", "--policy", "*oracle*", "--collection", "tiny", "--format", "json")
    assert [row["policy"] for row in json.loads(by_measure.out)] == [oracle_policy]
    assert len(ask("list", "--tag", "retriever=runs", "--limit", "2", "--format", "csv").rows) == 2
    [swept] = ask("list", "--sweeps", "--format", "csv").rows
    assert (swept["jobs"], swept["run_id"]) == ("2", listed[1]["sweep"])
    assert swept["command"].startswith("python run.py -m ")
    monkeypatch.setenv("COLUMNS", "80")
    table = ask("list")
    assert max(map(len, table.out.splitlines())) <= 80
    assert listed[0]["run"] in table.out
    assert "--format csv" in table.err  # where the columns are for which there was no room

    # The best: a policy that looks at the scores is no policy.
    [best] = ask("best", "--format", "csv").rows
    assert (best["collection"], best["policy"], best["of"]) == ("tiny/test", baseline, "2")
    assert ask("best", "--oracles", "--format", "csv").rows[0]["policy"] == oracle_policy
    assert len(ask("best", "--each-budget", "--format", "csv").rows) == 2

    # What differs, by the beginning of an id, and as folders: the paired difference is the mean of the differences.
    oracle = listed[1]["run"]
    told = json.loads(ask("diff", "single", oracle, "--format", "json").out)
    assert {"name": "seed", "a": "7", "b": "0"} in told["choices"]
    assert {"name": "estimator", "a": "baseline", "b": "score_oracle"} in told["choices"]
    assert not [choice for choice in told["choices"] if choice["name"] == "verbosity"]
    a, b = (pd.read_parquet(f"{folder}/per_query.parquet").query("judged") for folder in ("single", "sweep/1"))
    first = told["measures"][0]
    assert first["difference"] == pytest.approx((b["nDCG@10"] - a["nDCG@10"]).mean())
    assert first["low"] <= first["difference"] <= first["high"]
    assert first["p"] <= first["p_holm"] <= 1
    assert told["queries"] == told["wins"] + told["losses"] + told["ties"] == 4
    assert "B is above A on" in ask("diff", "single", "sweep/1").out

    for words, said in {
        ("list", "--policy", "gat"): r"no run has it; the runs have baseline \+ greedy \+ posterior, score_oracle \+",
        ("list", "--sort", "speed"): r"unknown measure 'speed': the runs have nDCG@10, RR@10",
        ("list", "--tag", "seed"): r"allowed is KEY=VALUE",
        ("list", "--limit", "0"): r"--limit=0",
        ("diff", "single", "nowhere"): r"'nowhere' is neither a folder nor a tracked run",
        ("diff", "single", swept["run"]): r"is a sweep .* name one of its jobs",
    }.items():
        with pytest.raises(ConfigError, match=said):
            ask(*words)


def test_a_server_that_is_down_is_named(ask: Callable[..., SimpleNamespace], monkeypatch: pytest.MonkeyPatch) -> None:
    from experiments.publish.trackstore import TrackingError

    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(TrackingError, match=r"the runs at http://127\.0\.0\.1:9 cannot be read"):
        ask("list")
