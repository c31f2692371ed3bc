"""Sweeps: what is in their folder is what they report."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest
from omegaconf import OmegaConf

from experiments.cli.sweep import FAILURE, Sweep, failed_jobs, note_failure, summaries
from experiments.evaluate.summary import Summary
from experiments.publish.files import write_summary
from experiments.publish.track import PARENT_FILE, NoTracking


class Tracked(NoTracking):
    """Remembers what became of the parent run ``p``."""

    ended: ClassVar[list[str]] = []

    def start_sweep(self, name: str) -> str:
        return "p"

    def finish(self, run_id: str, status: str = "FINISHED") -> None:
        self.ended.append(f"{run_id} {status}")

    def discard(self, run_id: str) -> None:
        self.ended.append(f"{run_id} discarded")


@pytest.fixture(autouse=True)
def tracked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tracked, "ended", [])
    monkeypatch.setattr("experiments.publish.track.Tracked", Tracked, raising=False)
    monkeypatch.setenv("RAGTUNE_COMPONENTS", Tracked.__module__.partition(".")[0])


def begun(folder: Path, target: str = "experiments.publish.track.Tracked", *words: str, resume: bool = False) -> Sweep:
    sweeper = {"_target_": "hydra._internal.core_plugins.basic_sweeper.BasicSweeper"}
    hydra = {"sweep": {"dir": str(folder)}, "sweeper": sweeper if words else {}, "overrides": {"task": list(words)}}
    return Sweep(OmegaConf.create({"hydra": hydra, "tracking": {"_target_": target}, "resume": resume}))


@pytest.fixture
def folder(tmp_path: Path, make_summary: Callable[..., Summary]) -> Path:
    """Twelve jobs of an earlier sweep, of which numbers 3 and 10 failed."""
    folder = tmp_path / "sweep"
    for number in range(12):
        job = folder / str(number)
        job.mkdir(parents=True)
        if number in (3, 10):
            note_failure(job, 2 if number == 3 else 1)
        else:
            write_summary(job, make_summary(overrides=[f"seed={number}"]))
        os.utime(job, (0, 0))
    (folder / PARENT_FILE).write_text('{"run_id": "before"}')
    return folder


def test_jobs_come_by_their_numbers_and_a_failed_one_is_no_row_though_it_has_results(folder: Path) -> None:
    assert list(summaries(folder)) == ["0", "1", "2", "4", "5", "6", "7", "8", "9", "11"]
    note_failure(folder / "4", 1)
    assert "4" not in summaries(folder)
    (folder / "3" / FAILURE).write_text("")  # on a full disk
    assert failed_jobs(folder) == {"3": 1, "4": 1, "10": 1}


def test_tracking_that_fails_costs_no_sweep(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    begun(tmp_path / "sweep", "nowhere.Tracking").abandon(is_interrupted=True)
    assert "warning: tracking is not available, results go to files only" in capfd.readouterr().err


def test_a_finished_sweep_that_is_resumed_stays_finished(folder: Path) -> None:
    sweep = begun(folder, "experiments.publish.track.Tracked", "seed=0,1", resume=True)
    os.utime(folder / "0", (1, 1))  # as its lock leaves it
    sweep.abandon(is_interrupted=True)
    assert Tracked.ended == ["before FINISHED"]


def test_an_abandoned_sweep_without_a_job_leaves_an_empty_folder(tmp_path: Path) -> None:
    sweep = begun(tmp_path / "sweep")
    (tmp_path / "sweep" / "multirun.yaml").touch()
    sweep.abandon(is_interrupted=False)
    assert list((tmp_path / "sweep").iterdir()) == []


@pytest.mark.parametrize(
    ("is_interrupted", "jobs", "resume", "ended"),
    [
        (True, ["12"], False, ["p KILLED"]),
        (True, ["12"], True, ["before KILLED"]),
        (False, [], False, ["p discarded"]),
        (False, ["3"], False, ["p FAILED"]),
        (False, [], True, []),
    ],
)
def test_what_becomes_of_the_parent_of_an_abandoned_sweep(
    folder: Path, is_interrupted: bool, jobs: list[str], resume: bool, ended: list[str]
) -> None:
    sweep = begun(folder, resume=resume)
    for job in jobs:
        (folder / job).mkdir(exist_ok=True)
        (folder / job / FAILURE).unlink(missing_ok=True)
        note_failure(folder / job, 1)
    sweep.abandon(is_interrupted=is_interrupted)
    assert Tracked.ended == ended
    if ended == ["p discarded"]:
        assert not (folder / PARENT_FILE).exists()
    else:
        assert json.loads((folder / PARENT_FILE).read_text())["run_id"] == ("before" if resume else "p")


def test_a_job_whose_summary_is_damaged_is_not_in_the_table(
    make_summary: Callable[..., Summary], tmp_path: Path
) -> None:
    sound = make_summary()
    for job, content in {"0": json.dumps(sound.plain()), "1": "", "2": "[]", "3": '{"policy": "p"}'}.items():
        (tmp_path / job).mkdir()
        (tmp_path / job / "summary.json").write_text(content)
    assert summaries(tmp_path) == {"0": sound}
