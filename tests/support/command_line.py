"""The real command line as a process, and the files that a run leaves."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import yaml
from patience import HANG_S

from experiments.config.options import WHERE_NOT_WHAT

ROOT = Path(__file__).parents[2]
SUPPORT = Path(__file__).parent
TEST_COMPONENTS = "misbehaving,probing,mine,broken_reranker"
"""Packages of the tests' own components, which a configuration may name."""
PROGRESS = re.compile(r"^.+: \d+ of \d+(, \S+ a second, .+ left)?\n", re.MULTILINE)


def make_environment(cache: Path, *python_path: Path) -> dict[str, str]:
    """What every process under test gets: a cache of its own, no model hub, the module ``misbehaving``."""
    fixed = {
        "RAGTUNE_CACHE": str(cache),
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": os.pathsep.join(map(str, (SUPPORT, *python_path))),
        "COLUMNS": "120",
        "RAGTUNE_COMPONENTS": TEST_COMPONENTS,
    }
    return {**{k: v for k, v in os.environ.items() if k != "MLFLOW_TRACKING_URI"}, **fixed}


def start_script(
    *arguments: str, cwd: Path, environment: Mapping[str, str], script: str = "run.py"
) -> subprocess.Popen[str]:
    """Start ``python SCRIPT ARGUMENTS`` in a process group of its own."""
    command = [sys.executable, str(ROOT / script), *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=cwd, env=environment, start_new_session=True, **pipes)


def finish(process: subprocess.Popen[str], timeout: float = HANG_S) -> SimpleNamespace:
    """Its end: code, out, err, lines."""
    out, err = process.communicate(timeout=timeout)
    return SimpleNamespace(code=process.returncode, out=out, err=without_progress(err), lines=out.splitlines())


def without_progress(err: str) -> str:
    """What was said to stderr but how far the work is, of which a busy machine says more."""
    return PROGRESS.sub("", err)


def finished_queries(folder: Path) -> list[str]:
    """The queries in the journal of a run that is not complete."""
    file = folder / "journal.jsonl"
    lines = file.read_bytes().split(b"\n")[1:-1] if file.exists() else []
    return [json.loads(line.partition(b"\t")[0])["query_id"] for line in lines]


def all_bytes(folder: Path) -> dict[str, bytes]:
    """The bytes of every file below a folder, by path, in order."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def content(folder: Path) -> dict[str, object]:
    """Every file's bytes; summary and configuration without what says where and when."""
    files: dict[str, object] = {file.name: file.read_bytes() for file in folder.iterdir()}
    summary = json.loads(files["summary.json"])  # type: ignore[arg-type]
    summary["tags"].pop("git_sha")  # whoever works in the checkout may change it between two runs
    files["summary.json"] = {k: v for k, v in summary.items() if k not in ("wall_s", "mlflow_run_id", "overrides")}
    config = yaml.safe_load(files["config.yaml"])  # type: ignore[arg-type]
    files["config.yaml"] = {k: v for k, v in config.items() if k not in WHERE_NOT_WHAT}
    return files
