"""The real command line: as a process where that is the point, else in this one (a start costs seconds)."""

import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import pytest
from command_line import ROOT, finish, make_environment, start_script, without_progress


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What every process of these tests gets: a cache of their own, no model hub, the misbehaving components."""
    return make_environment(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def start(environment: dict[str, str]) -> Callable[..., subprocess.Popen[str]]:
    """Starts ``python SCRIPT ARGUMENTS`` in a process group of its own."""

    def run(*arguments: str, cwd: Path, script: str = "run.py", **env: str) -> subprocess.Popen[str]:
        return start_script(*arguments, cwd=cwd, environment={**environment, **env}, script=script)

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
    from experiments.cli.main import main

    cwd = tmp_path / "cwd"
    cwd.mkdir()
    monkeypatch.chdir(cwd)
    monkeypatch.setenv("RAGTUNE_CACHE", environment["RAGTUNE_CACHE"])
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)

    def call(*arguments: str, tracked: bool = False) -> SimpleNamespace:
        monkeypatch.setattr(sys, "argv", ["run.py"])  # Hydra's entry point reads it
        capfd.readouterr()
        code = main([*arguments, *([] if tracked else ["tracking=none"])])
        out, err = capfd.readouterr()
        return SimpleNamespace(code=code, out=out, err=without_progress(err), lines=out.splitlines(), cwd=cwd)

    return call


@pytest.fixture(scope="session")
def run_here(environment: dict[str, str]) -> Callable[..., SimpleNamespace]:
    """What ``run`` does, without a process of its own, which costs seconds; what its workers say is not told."""

    def call(*arguments: str, cwd: Path, script: str = "run.py", **env: str) -> SimpleNamespace:
        out, err = StringIO(), StringIO()
        with pytest.MonkeyPatch.context() as here, redirect_stdout(out), redirect_stderr(err):
            here.chdir(cwd)
            here.setattr(sys, "argv", [script, *map(str, arguments)])
            here.setattr(sys, "path", [*sys.path])
            here.delenv("MLFLOW_TRACKING_URI", raising=False)
            for name, value in {**environment, **env}.items():
                here.setenv(name, value)
            with pytest.raises(SystemExit) as ended:
                runpy.run_path(str(ROOT / script), run_name="__main__")
        return SimpleNamespace(
            code=ended.value.code or 0,
            out=out.getvalue(),
            err=without_progress(err.getvalue()),
            lines=out.getvalue().splitlines(),
        )

    return call
