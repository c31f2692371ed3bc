"""The tracking server killed between any two requests; stores that are locked, foreign or broken: no result is lost."""

import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest
from chaos_runs import Job, assert_clear, assert_same_results, assert_tracked_once
from command_line import content
from web_pages import end, start_serving

from experiments.publish.files import read_summary
from experiments.publish.track import prepare_file

KILLS = 6


class MlflowServer:
    """A real server that can be killed and started again, with an SQLite file and artifacts in a new ``folder``."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        folder.mkdir()
        self.url = ""
        self.store = f"sqlite:///{folder}/mlflow.db"
        files = ["--backend-store-uri", self.store, "--artifacts-destination", str(folder / "files")]
        self._command = [sys.executable, "-m", "mlflow", "server", "--workers", "1", *files]
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Of the server's process group."""
        return self._process.pid

    def start(self) -> None:
        """Start it, where it was before, and wait until it answers."""
        port = int(self.url.rpartition(":")[2] or 0)
        self._process, self.url = start_serving(self._command, "/health", port, env=self._environment)

    def kill(self) -> None:
        """Kill it and its workers; harmless to call again."""
        if self._process is not None:
            end(self._process)


def relog(job: Job) -> SimpleNamespace:
    return replace(job, script="scripts/relog.py", arguments=[str(job.out)]).run()


def is_logged(job: Job) -> bool:
    summary = read_summary(job.out)
    return summary.mlflow_run_id is not None


def assert_warned(ended: SimpleNamespace) -> None:
    assert_clear(ended, 0)
    assert ended.err.startswith("warning: tracking failed (")
    assert len(ended.err.splitlines()) == 1, ended.err
    assert "ragtune relog" in ended.err


def test_a_server_killed_at_any_request_costs_no_result_and_the_log_is_made_up(
    job: Callable[..., Job],
    environment: dict[str, str],
    tiny: list[str],
    tmp_path: Path,
    rng: Random,
    tally: Counter[str],
) -> None:
    server = MlflowServer(tmp_path / "server", environment)
    try:
        server.start()
        undisturbed = job(*tiny, cwd=tmp_path / "undisturbed", MLFLOW_TRACKING_URI=server.url)
        assert_clear(undisturbed.run(chaos="requests:0:0:-"), 0)
        assert_tracked_once(server.url, undisturbed.out)
        requests, whole = undisturbed.changes(), content(undisturbed.out)
        for number in range(KILLS):
            name = f"tracking.experiment=kill{number}"
            killed = job(*tiny, name, cwd=tmp_path / f"killed{number}", MLFLOW_TRACKING_URI=server.url)
            ended = killed.run(chaos=f"requests:{rng.randint(1, requests)}:{server.pid}:-")
            tally["kill -9 of the MLflow server"] += 1
            assert_same_results(killed.out, whole)
            server.kill()
            server.start()
            if not is_logged(killed):
                assert_warned(ended)
                tally["runs logged later by relog.py"] += 1
                assert_clear(relog(killed), 0)
            assert_tracked_once(server.url, killed.out, f"kill{number}")
    finally:
        server.kill()


@contextmanager
def locked(file: Path) -> Iterator[None]:
    prepare_file(file)
    with closing(sqlite3.connect(file)) as db:
        db.execute("BEGIN EXCLUSIVE")
        yield


@contextmanager
def cut(file: Path) -> Iterator[None]:
    prepare_file(file)
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 3])
    yield
    file.write_bytes(whole)


@contextmanager
def of_another_program(file: Path) -> Iterator[None]:
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("CREATE TABLE recipes (name TEXT)")
    yield
    with closing(sqlite3.connect(file)) as db:
        assert [name for (name,) in db.execute("SELECT name FROM sqlite_master")] == ["recipes"]
    file.unlink()


@pytest.mark.parametrize("state", [locked, cut, of_another_program])
def test_a_store_that_cannot_be_used_costs_no_result(
    job: Callable[..., Job],
    tiny: list[str],
    tmp_path: Path,
    tally: Counter[str],
    state: Callable[[Path], contextmanager],
) -> None:
    file = tmp_path / "mlflow.db"
    run = job(*tiny, f"tracking.uri=sqlite:///{file}")
    with state(file):
        assert_warned(run.run())
        before = content(run.out)
    assert_clear(relog(run), 0)
    assert_same_results(run.out, before)
    assert_tracked_once(f"sqlite:///{file}", run.out)
    tally[f"mlflow.db {state.__name__.replace('_', ' ')}: results safe, logged later"] += 1
