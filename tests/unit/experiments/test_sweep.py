"""Sweeps: what is in their folder is what they report."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest
from omegaconf import OmegaConf

from experiments.cli.sweep import (
    FAILURE,
    abandon_unfinished,
    begin_sweep,
    end_sweep,
    failed_jobs,
    forget_failure,
    note_failure,
    summaries,
)
from experiments.evaluate.summary import Summary
from experiments.publish.files import write_summary
from experiments.publish.track import PARENT_FILE, NoTracking


def config(folder: Path, target: str = "experiments.publish.track.NoTracking", **options: object):
    hydra = {"sweep": {"dir": str(folder)}}
    base = {"hydra": hydra, "tracking": {"_target_": target}, "resume": False}
    return OmegaConf.create(base | options)


@pytest.fixture
def sweep(tmp_path: Path, make_summary: Callable[..., Summary]) -> Path:
    """Twelve jobs, of which numbers 3 and 10 failed."""
    folder = tmp_path / "sweep"
    for number in range(12):
        job = folder / str(number)
        job.mkdir(parents=True)
        if number in (3, 10):
            note_failure(job, 2 if number == 3 else 1)
        else:
            write_summary(job, make_summary(overrides=[f"seed={number}"]))
    return folder


def test_summaries_come_by_job_number(sweep: Path) -> None:
    assert list(summaries(sweep)) == ["0", "1", "2", "4", "5", "6", "7", "8", "9", "11"]


def test_a_job_that_has_failed_is_no_row_of_the_table_though_it_has_results(sweep: Path) -> None:
    note_failure(sweep / "4", 1)
    assert "4" not in summaries(sweep)
    forget_failure(sweep / "4")
    assert "4" in summaries(sweep)


def test_failures_are_told_by_job_until_they_are_tried_again(sweep: Path) -> None:
    assert failed_jobs(sweep) == {"3": 2, "10": 1}
    forget_failure(sweep / "3")
    assert failed_jobs(sweep) == {"10": 1}
    (sweep / "3" / FAILURE).touch()  # on a full disk
    assert failed_jobs(sweep) == {"3": 1, "10": 1}


def test_a_sweep_ends_with_a_table_its_folder_and_the_worst_exit_code(
    sweep: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    begin_sweep(config(sweep))
    with pytest.raises(SystemExit) as end:
        end_sweep(config(sweep))
    assert end.value.code == 2
    out, err = capfd.readouterr()
    assert "10 runs" in out
    assert out.splitlines()[-1] == str(sweep)
    assert err == "error: failed jobs: 3, 10\n"
    assert len((sweep / "sweep.csv").read_text().splitlines()) == 11


def test_an_interrupted_sweep_keeps_its_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "sweep"
    folder.mkdir()
    (folder / PARENT_FILE).write_text('{"run_id": "abc"}')
    begin_sweep(config(folder, resume=True))
    assert json.loads((folder / PARENT_FILE).read_text())["run_id"] == "abc"
    abandon_unfinished(is_interrupted=True)
    begin_sweep(config(folder))
    assert json.loads((folder / PARENT_FILE).read_text())["run_id"] is None
    abandon_unfinished(is_interrupted=True)


def test_tracking_that_fails_costs_no_sweep(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    begin_sweep(config(tmp_path / "sweep", target="nowhere.Tracking"))
    assert "warning: tracking is not available, results go to files only" in capfd.readouterr().err
    abandon_unfinished(is_interrupted=True)


def test_an_interrupted_sweep_writes_the_table_of_its_finished_jobs_labelled_as_partial(
    sweep: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    begin_sweep(config(sweep))
    abandon_unfinished(is_interrupted=True)
    label = "partial: 10 jobs finished, then the sweep was interrupted"
    assert label in " ".join(capfd.readouterr().out.split())
    assert label in (sweep / "sweep.md").read_text()
    head, *rows = (sweep / "sweep.csv").read_text().splitlines()
    assert head.split(",")[-1] == "partial"
    assert [row.split(",")[-1] for row in rows] == ["10 jobs"] * 10


@pytest.mark.parametrize("is_interrupted", [True, False])
def test_a_finished_sweep_that_is_resumed_stays_finished(
    sweep: Path, monkeypatch: pytest.MonkeyPatch, is_interrupted: bool
) -> None:
    (sweep / PARENT_FILE).write_text('{"run_id": "before"}')
    monkeypatch.setattr(Tracked, "ended", [])
    monkeypatch.setattr("experiments.publish.track.Tracked", Tracked, raising=False)
    monkeypatch.setenv("RAGTUNE_COMPONENTS", Tracked.__module__.partition(".")[0])
    monkeypatch.setattr("experiments.cli.sweep._planned_jobs", lambda _: [["seed=0"], ["seed=1"]])
    begin_sweep(config(sweep, target="experiments.publish.track.Tracked", resume=True))
    os.utime(sweep / "0", (0, 0))  # as its lock leaves it
    abandon_unfinished(is_interrupted=is_interrupted)
    assert Tracked.ended == ["before FINISHED"]


@pytest.mark.parametrize("is_interrupted", [True, False])
def test_an_abandoned_sweep_without_a_job_leaves_an_empty_folder(tmp_path: Path, is_interrupted: bool) -> None:
    folder = tmp_path / "sweep"
    begin_sweep(config(folder))
    (folder / "multirun.yaml").touch()
    abandon_unfinished(is_interrupted=is_interrupted)
    assert list(folder.iterdir()) == []


class Tracked(NoTracking):
    """Remembers what became of the parent run ``p``."""

    ended: ClassVar[list[str]] = []

    def start_sweep(self, name: str) -> str:
        return "p"

    def finish(self, run_id: str, status: str = "FINISHED") -> None:
        self.ended.append(f"{run_id} {status}")

    def discard(self, run_id: str) -> None:
        self.ended.append(f"{run_id} discarded")


@pytest.mark.parametrize(
    ("is_interrupted", "begun", "resume", "ended"),
    [
        (True, [], False, ["p KILLED"]),
        (True, ["12"], False, ["p KILLED"]),
        (True, ["12"], True, ["before KILLED"]),
        (False, [], False, ["p discarded"]),
        (False, ["12"], False, ["p FAILED"]),
        (False, ["3"], False, ["p FAILED"]),
        (False, ["3"], True, ["before FAILED"]),
        (False, [], True, []),
    ],
)
def test_what_becomes_of_the_parent_of_an_abandoned_sweep(
    sweep: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_interrupted: bool,
    begun: list[str],
    resume: bool,
    ended: list[str],
) -> None:
    """The folder holds twelve jobs of an earlier sweep; of this one some or none have begun."""
    (sweep / PARENT_FILE).write_text('{"run_id": "before"}')
    for job in sweep.glob("[0-9]*"):
        os.utime(job, (0, 0))
    monkeypatch.setattr(Tracked, "ended", [])
    monkeypatch.setattr("experiments.publish.track.Tracked", Tracked, raising=False)
    monkeypatch.setenv("RAGTUNE_COMPONENTS", Tracked.__module__.partition(".")[0])
    begin_sweep(config(sweep, target="experiments.publish.track.Tracked", resume=resume))
    for job in begun:
        (sweep / job).mkdir(exist_ok=True)
        forget_failure(sweep / job)
        note_failure(sweep / job, 1)
    abandon_unfinished(is_interrupted=is_interrupted)
    assert Tracked.ended == ended
    if ended == ["p discarded"]:
        assert not (sweep / PARENT_FILE).exists()
    else:
        assert json.loads((sweep / PARENT_FILE).read_text())["run_id"] == ("before" if resume else "p")


def test_a_job_whose_summary_is_damaged_is_not_in_the_table(
    make_summary: Callable[..., Summary], tmp_path: Path
) -> None:
    sound = make_summary()
    for job, content in {"0": json.dumps(sound.plain()), "1": "", "2": "[]", "3": '{"policy": "p"}'}.items():
        (tmp_path / job).mkdir()
        (tmp_path / job / "summary.json").write_text(content)
    assert summaries(tmp_path) == {"0": sound}
