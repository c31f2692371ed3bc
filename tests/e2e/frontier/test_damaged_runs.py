"""Runs whose files are damaged are refused with the file and what is wrong with it."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from experiments.compare.run_folder import find_runs
from experiments.compare.runs import study_of_runs
from ragtune.core.errors import InputError


@pytest.fixture
def damaged(two_runs: SimpleNamespace, tmp_path: Path) -> Callable[[str, bytes | None], Path]:
    """A copy of the second run in which one file holds something else, or is missing."""

    def make(name: str, content: bytes | None) -> Path:
        folder = tmp_path / "damaged"
        shutil.copytree(two_runs.ours, folder)
        (folder / name).unlink()
        if content is not None:
            (folder / name).write_bytes(content)
        return folder

    return make


FILES = ["summary.json", "config.yaml", "curve.csv", "per_query.parquet", "traces.jsonl.gz", "run.trec"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        *((name, b"\x00\xff{[:") for name in FILES),
        ("curve.csv", None),
        ("summary.json", b"{}"),
        ("config.yaml", b"seed: 0\n"),
        ("curve.csv", b"documents,documents_mean\n"),
        ("run.trec", b"q1\n"),
        ("traces.jsonl.gz", gzip.compress(b'{"query_id": "x", "events": []}\n', mtime=0)),
        ("traces.jsonl.gz", gzip.compress(b"text" * 1000, mtime=0)[:20]),
    ],
)
def test_the_message_names_the_file(
    two_runs: SimpleNamespace,
    damaged: Callable[[str, bytes | None], Path],
    tmp_path: Path,
    name: str,
    content: bytes | None,
) -> None:
    folder = damaged(name, content)
    with pytest.raises(InputError) as refused:
        study_of_runs(find_runs([str(two_runs.fixed), str(folder)], tmp_path), "python x", texts=False)
    assert name in str(refused.value)
    assert str(folder) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_table_without_a_column_is_refused(
    two_runs: SimpleNamespace, damaged: Callable[[str, bytes | None], Path], tmp_path: Path
) -> None:
    import pandas as pd

    for column in ("judged", "charged_docs"):
        folder = damaged("per_query.parquet", None)
        table = pd.read_parquet(two_runs.ours / "per_query.parquet").drop(columns=column)
        table.to_parquet(folder / "per_query.parquet")
        with pytest.raises(InputError, match=r"per_query\.parquet") as refused:
            study_of_runs(find_runs([str(two_runs.fixed), str(folder)], tmp_path), "python x", texts=False)
        assert repr(column) in str(refused.value)
        shutil.rmtree(folder)


def test_runs_whose_folders_are_called_alike_are_told_apart(two_runs: SimpleNamespace, tmp_path: Path) -> None:
    for sweep in ("sw1", "sw2"):
        shutil.copytree(two_runs.ours, tmp_path / sweep / "0")
    given = [str(tmp_path / "sw1" / "0"), str(tmp_path / "sw2" / "0")]
    study = study_of_runs(find_runs(given, tmp_path), "python x", texts=False)
    assert [policy.name for policy in study.policies] == given
    assert len({policy.label for policy in study.policies}) == 2
    with pytest.raises(InputError, match="given twice"):
        find_runs([given[0], f"{given[1]}/../../sw1/0"], tmp_path)


def test_runs_that_have_failed_or_read_other_data_are_compared_with_a_warning(
    two_runs: SimpleNamespace,
    run_here: Callable[..., SimpleNamespace],
    damaged: Callable[[str, bytes | None], Path],
    tmp_path: Path,
) -> None:
    summary = json.loads((two_runs.ours / "summary.json").read_text())
    summary["failures"] |= {"status": "failed", "first_error": "KeyError: 'x'"}
    file = next(iter(summary["inputs"]))
    summary["inputs"][file] = "0" * 64
    folder = damaged("summary.json", json.dumps(summary).encode())
    ended = run_here(str(two_runs.fixed), str(folder), "--no-report", script="scripts/compare.py", cwd=tmp_path)
    assert ended.code == 0
    failed, changed = ended.err.splitlines()
    assert failed == "warning: run damaged has failed, first error: KeyError: 'x'"
    assert changed == f"warning: {file} has changed between the runs {two_runs.fixed.name} and damaged"
    assert "- run damaged has failed" in ended.out
