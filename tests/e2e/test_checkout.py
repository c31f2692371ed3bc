"""A command runs the code of the checkout it lies in, in all its processes, whatever is installed or on PYTHONPATH."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from patience import HANG_S

ROOT = Path(__file__).parents[2]

PROBE = '''
"""A reranker that says where its process has its code from."""
import importlib.util, json, os
import experiments, ragtune
from ragtune.rerankers.replay import ReplayReranker

class Probe(ReplayReranker):
    def __init__(self, **arguments):
        super().__init__(**arguments)
        spec = importlib.util.find_spec("datasets")
        places = [] if spec is None else list(spec.submodule_search_locations or [])
        with open(os.environ["PROBED"], "a") as log:
            log.write(json.dumps([os.getpid(), experiments.__file__, ragtune.__file__, places]) + "\\n")
'''


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another checkout than the one that is installed."""
    clone = tmp_path_factory.mktemp("clone")
    for name in ("ragtune", "experiments", "conf", "datasets", "scripts"):
        shutil.copytree(ROOT / name, clone / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "run.py", clone)
    return clone


def test_run_py_and_its_workers_use_the_code_beside_it(
    environment: dict[str, str], clone: Path, tmp_path: Path, tiny: list[str]
) -> None:
    (tmp_path / "probing.py").write_text(PROBE)
    log = tmp_path / "log"
    variables = {"PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}", "PROBED": str(log)}
    fixed = ["executor=joblib", "executor.n_jobs=2", "reranker._target_=probing.Probe", "tracking=none"]
    command = [sys.executable, str(clone / "run.py"), *tiny, *fixed, f"hydra.run.dir={tmp_path}/out"]
    ended = subprocess.run(
        command, cwd=ROOT, env={**environment, **variables}, capture_output=True, text=True, timeout=HANG_S
    )
    assert ended.returncode == 0, ended.stderr
    probes = [json.loads(line) for line in log.read_text().splitlines()]
    assert len({process for process, *_ in probes}) >= 2
    for _, harness, library, places in probes:
        assert harness == str(clone / "experiments" / "__init__.py")
        assert library == str(clone / "ragtune" / "__init__.py")
        assert not {str(clone / "datasets"), str(ROOT / "datasets")} & set(places)
