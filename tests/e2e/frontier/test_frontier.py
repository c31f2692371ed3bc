"""python scripts/frontier.py: what it writes, that it goes on after a kill, and that it does so to the byte."""

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from command_line import all_bytes
from patience import wait_until

FILES = [
    "cells",
    "curves.csv",
    "frontier.csv",
    "frontier.md",
    "frontier.parquet",
    "frontier.tex",
    "per_query.parquet",
    "policies.csv",
    "report.html",
]

DL19 = ("--collections", "dl19 bm25 monot5", "--policies", "fixed_depth")

Run = Callable[..., SimpleNamespace]


def test_every_file_is_there_and_the_tables_are_printed(frontier: SimpleNamespace) -> None:
    assert sorted(file.name for file in frontier.folder.iterdir()) == FILES
    assert (frontier.folder / "frontier.md").read_text() in frontier.out
    assert Path(frontier.lines[-1]) == Path("results/frontier/demo")
    assert frontier.err == ""
    head = (frontier.folder / "frontier.md").read_text().split("##")[0]
    assert head.startswith("# Which policy spends a reranking budget best on the shipped collection?\n")
    assert "ragtune study --policies=settled 'budgets=[5,10]'" in head


def test_a_row_a_cell_with_costs_within_the_budget(frontier: SimpleNamespace) -> None:
    table = pd.read_csv(frontier.folder / "frontier.csv")
    assert list(zip(table["policy"], table["budget"], strict=True)) == [
        ("fixed_depth", 5),
        ("fixed_depth", 10),
        ("settled", 5),
        ("settled", 10),
    ]
    assert (table["docs_p90"] <= table["budget"]).all()
    assert (table["queries"] == 50).all()
    for measure in ("nDCG@10", "RR@10", "AP", "R@100"):
        assert (table[f"{measure}_low"] <= table[measure]).all()
        assert (table[measure] <= table[f"{measure}_high"]).all()
    assert table.set_index(["policy", "budget"])["calls_mean"]["fixed_depth", 10] == 1
    queries = pd.read_parquet(frontier.folder / "per_query.parquet")
    means = queries.groupby(["policy", "budget"], sort=False)["nDCG@10"].mean()
    assert table["nDCG@10"].tolist() == pytest.approx(means.tolist(), abs=1e-6)
    assert len(queries) == 4 * 50


def test_processes_change_nothing(frontier: SimpleNamespace, run_here: Run, tmp_path: Path) -> None:
    ended = run_here(
        *frontier.words, "jobs=2", "report=false", "--out", "out", script="scripts/frontier.py", cwd=tmp_path
    )
    assert ended.code == 0, ended.err
    for name in ("frontier.csv", "frontier.parquet", "per_query.parquet", "policies.csv"):
        assert (tmp_path / "out" / name).read_bytes() == (frontier.folder / name).read_bytes()


def test_a_killed_frontier_goes_on_elsewhere_keeps_finished_cells_and_writes_the_same_bytes(
    frontier: SimpleNamespace, start: Callable[..., subprocess.Popen[str]], run_here: Run, tmp_path: Path
) -> None:
    folder = tmp_path / "results" / "frontier" / "demo"
    process = start(*frontier.words, script="scripts/frontier.py", cwd=tmp_path)
    wait_until(lambda: list((folder / "cells").glob("*.json.gz")))
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert not (folder / "frontier.md").exists()
    kept = {file: file.stat().st_mtime_ns for file in (folder / "cells").glob("*.json.gz")}
    assert run_here(*frontier.words, script="scripts/frontier.py", cwd=tmp_path).code == 0
    assert kept.items() <= {file: file.stat().st_mtime_ns for file in (folder / "cells").glob("*.json.gz")}.items()
    for leftover in (folder / "cells").glob(".*"):
        leftover.unlink()
    assert all_bytes(folder) == all_bytes(frontier.folder)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--config", "nope"), "no frontier configuration 'nope': allowed are "),
        (("--policies", "nobody"), "policies: unknown 'nobody': allowed are fixed"),
        (("--out", "/proc/nope", "jobs=1"), "nothing can be written to '/proc/nope'"),
        (("--config", "shared", *DL19, "--data", "/does/not/exist", "jobs=1"), "'/does/not/exist/dl19' does not exist"),
    ],
)
def test_bad_input_ends_with_code_2_and_one_line(
    run_here: Run, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    ended = run_here(*arguments, script="scripts/frontier.py", cwd=tmp_path)
    assert ended.code == 2
    assert said in ended.err
    assert ended.err.startswith("error: ")
    assert ended.err.count("\n") == 1
    assert not list(tmp_path.rglob("*.md"))
