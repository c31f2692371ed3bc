"""python scripts/compare.py: tracked runs side by side, and what cannot be compared."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from experiments.compare.run_folder import find_runs
from experiments.compare.runs import study_of_runs
from ragtune.core.errors import ConfigError

Run = Callable[..., SimpleNamespace]


def compare(run: Run, cwd: Path, *arguments: object, **environment: str) -> SimpleNamespace:
    return run(*map(str, arguments), "--out", "out", script="scripts/compare.py", cwd=cwd, **environment)


def test_two_folders_give_tables_figures_and_report(two_runs: SimpleNamespace, run_here: Run, tmp_path: Path) -> None:
    ended = compare(run_here, tmp_path, two_runs.fixed, two_runs.ours, "--texts")
    assert ended.code == 0, ended.err
    names = {file.name for file in (tmp_path / "out").iterdir()}
    assert {"compare.md", "compare.csv", "compare.parquet", "per_query.parquet", "policies.csv"} <= names
    assert {"demo-test.curves.png", "report.html", "compare.tex"} <= names
    paper = (tmp_path / "out" / "compare.tex").read_text()
    assert r"fixed\_depth" in paper
    assert r"$^{\blacktriangle}$" in paper
    for body in re.findall(r"\\begin\{tabular\}\{(l\w+)\}(.*?)\\end\{tabular\}", paper, re.DOTALL):
        rows = re.findall(r"^ +(?!\\)(.*) \\\\$", body[1], re.MULTILINE)
        assert len(rows) == 3
        assert {len(re.split(r"(?<!\\)&", row)) for row in rows} == {len(body[0])}
    table = pd.read_csv(tmp_path / "out" / "compare.csv").set_index("policy")
    for name, folder in (("fixed", two_runs.fixed), ("ours", two_runs.ours)):
        summary = json.loads((folder / "summary.json").read_text())
        assert table.loc[name, "nDCG@10"] == pytest.approx(summary["measures"]["nDCG@10"], abs=1e-5)
        assert table.loc[name, "docs_mean"] == pytest.approx(summary["cost_per_query"]["charged"]["docs"])
    assert table.loc["fixed", "kind"] == "baseline"
    assert pd.isna(table.loc["fixed", "nDCG@10_p_t"])
    assert 0 <= table.loc["ours", "nDCG@10_p_t_holm"] <= 1


def test_a_tracked_run_is_found_by_its_id(two_runs: SimpleNamespace, run_here: Run, tmp_path: Path) -> None:
    run_id = json.loads((two_runs.ours / "summary.json").read_text())["mlflow_run_id"]
    ended = compare(run_here, tmp_path, two_runs.fixed, run_id, "--no-report", MLFLOW_TRACKING_URI=two_runs.uri)
    assert ended.code == 0, ended.err
    table = pd.read_csv(tmp_path / "out" / "compare.csv")
    assert table["policy"].tolist() == ["fixed", run_id[:8]]
    summary = json.loads((two_runs.ours / "summary.json").read_text())
    assert table["nDCG@10"].iloc[1] == pytest.approx(summary["measures"]["nDCG@10"], abs=1e-5)


def test_an_unknown_id_is_refused_with_the_address_and_no_store_is_made(
    two_runs: SimpleNamespace, run_here: Run, tmp_path: Path
) -> None:
    ended = compare(run_here, tmp_path, two_runs.fixed, "0" * 32, MLFLOW_TRACKING_URI=two_runs.uri)
    assert ended.code == 2
    assert two_runs.uri in ended.err
    ended = compare(run_here, tmp_path, two_runs.fixed, "0" * 32)
    assert ended.code == 2
    assert "neither a run folder nor a run tracked" in ended.err
    assert not list(tmp_path.rglob("*.db"))


@pytest.mark.parametrize(
    ("summary", "said"),
    [
        ({"dataset": "other/test"}, "dataset of fixed is 'demo/test', of altered 'other/test'"),
        ({"measures": {"P@3": 0.1}}, "share no measure"),
    ],
)
def test_runs_that_measure_different_things_are_refused(
    two_runs: SimpleNamespace, tmp_path: Path, summary: dict[str, object], said: str
) -> None:
    altered = Path(shutil.copytree(two_runs.ours, tmp_path / "altered"))
    file = altered / "summary.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | summary))
    with pytest.raises(ConfigError, match=said):
        study_of_runs(find_runs([str(two_runs.fixed), str(altered)], tmp_path), "c")


def test_one_run_the_same_run_twice_and_an_unfinished_run_are_refused(
    two_runs: SimpleNamespace, run_here: Run, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    for arguments, said in (
        ((two_runs.fixed,), "at least two runs"),
        ((two_runs.fixed, two_runs.fixed), "given twice"),
        ((two_runs.fixed, "empty"), "holds no complete run"),
    ):
        ended = compare(run_here, tmp_path, *arguments)
        assert ended.code == 2
        assert said in ended.err
