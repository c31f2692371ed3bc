"""The real command line: as a process where that is the point, else in this one (a start costs seconds)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]

COMPONENTS = '''
"""Rerankers that misbehave, for tests."""
import os, time
from ragtune.rerankers.replay import ReplayReranker

class Slow(ReplayReranker):
    def __init__(self, seconds, **arguments):
        super().__init__(**arguments)
        self.seconds = seconds
    def rerank(self, items, context, strategy):
        with open(os.environ["RERANK_LOG"], "a") as log:
            log.write(context.query_id + "\\n")
        time.sleep(self.seconds)
        return super().rerank(items, context, strategy)

class Broken(ReplayReranker):
    """Fails on every batch that holds the document."""
    def __init__(self, on, **arguments):
        super().__init__(**arguments)
        self.on = on
    def rerank(self, items, context, strategy):
        if any(item.doc_id == self.on for item in items):
            raise RuntimeError("the model server is on fire")
        return super().rerank(items, context, strategy)
'''


@pytest.fixture(scope="session")
def components(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for PYTHONPATH, with the module ``misbehaving``."""
    folder = tmp_path_factory.mktemp("components")
    (folder / "misbehaving.py").write_text(COMPONENTS)
    return folder


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory, components: Path) -> dict[str, str]:
    """What every process of these tests gets: a cache of their own, no model hub, the misbehaving components."""
    fixed = {
        "RAGTUNE_CACHE": str(tmp_path_factory.mktemp("cache")),
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": str(components),
        "COLUMNS": "120",
    }
    return {**{k: v for k, v in os.environ.items() if k != "MLFLOW_TRACKING_URI"}, **fixed}


def finish(process: subprocess.Popen[str], timeout: float = 120) -> SimpleNamespace:
    out, err = process.communicate(timeout=timeout)
    return SimpleNamespace(code=process.returncode, out=out, err=err, lines=out.splitlines())


def _listen_to_interrupts() -> None:
    """A shell's background jobs ignore SIGINT and hand that on; a person's Ctrl-C is not ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture(scope="session")
def start(environment: dict[str, str]) -> Callable[..., subprocess.Popen[str]]:
    """Starts ``python SCRIPT ARGUMENTS`` in a process group of its own."""

    def run(*arguments: str, cwd: Path, script: str = "run.py", **env: str) -> subprocess.Popen[str]:
        command = [sys.executable, str(ROOT / script), *arguments]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        own = {"start_new_session": True, "preexec_fn": _listen_to_interrupts}
        return subprocess.Popen(command, cwd=cwd, env={**environment, **env}, **own, **pipes)

    return run


@pytest.fixture(scope="session")
def run(start: Callable[..., subprocess.Popen[str]]) -> Callable[..., SimpleNamespace]:
    """Runs a command to its end: code, out, err, lines."""
    return lambda *arguments, **options: finish(start(*arguments, **options))


@pytest.fixture
def main(
    environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., SimpleNamespace]]:
    """The same command line without a process of its own, untracked, in an empty folder."""
    from experiments.cli import main

    cwd = tmp_path / "cwd"
    cwd.mkdir()
    monkeypatch.chdir(cwd)
    monkeypatch.setenv("RAGTUNE_CACHE", environment["RAGTUNE_CACHE"])
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.syspath_prepend(environment["PYTHONPATH"])

    def call(*arguments: str, tracked: bool = False) -> SimpleNamespace:
        monkeypatch.setattr(sys, "argv", ["run.py", *arguments, *([] if tracked else ["tracking=none"])])
        capfd.readouterr()
        code = main()
        out, err = capfd.readouterr()
        return SimpleNamespace(code=code, out=out, err=err, lines=out.splitlines(), cwd=cwd)

    return call


@pytest.fixture
def tiny(collection: Path) -> list[str]:
    """Overrides that choose the small collection, its first stage and its scores."""
    dataset = ["dataset=beir", f"dataset.path={collection}", f"dataset.scores={collection}/scores.run"]
    return [*dataset, "retriever=runs", f"retriever.paths={collection}/bm25.run", "estimator=baseline"]


@pytest.fixture(scope="session")
def wait_for() -> Callable[..., None]:
    """Polls until a condition holds."""

    def wait(condition: Callable[[], object], timeout: float = 60) -> None:
        deadline = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < deadline, "waited in vain"
            time.sleep(0.05)

    return wait
