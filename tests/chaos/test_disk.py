"""Disks that fill up at any point: one clear line, nothing corrupted, and a resumption once there is room."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import pytest
from chaos_runs import Job, assert_clear, assert_same_results, assert_tracked_once
from command_line import content

from experiments.publish.files import read_summary

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root may mount a small disk; tests/e2e/test_bad_input.py limits files instead"
)
LARGE = 64 << 20


@dataclass
class Disk:
    """A file system in memory."""

    folder: Path

    def mount(self, size: int) -> None:
        self.folder.mkdir(exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(self.folder)], check=True)

    def resize(self, size: int) -> None:
        subprocess.run(["mount", "-o", f"remount,size={size}", str(self.folder)], check=True)

    def unmount(self) -> None:
        if self.folder.is_mount():
            subprocess.run(["umount", "--lazy", str(self.folder)], check=True)

    @property
    def used(self) -> int:
        status = os.statvfs(self.folder)
        return (status.f_blocks - status.f_bfree) * status.f_frsize


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    disk = Disk(tmp_path / "disk")
    yield disk
    disk.unmount()


def test_a_full_results_folder(
    job: Callable[..., Job], tiny: list[str], disk: Disk, rng: Random, tally: Counter[str]
) -> None:
    disk.mount(LARGE)
    run = job(*tiny, "tracking=none", cwd=disk.folder / "cwd")
    assert_clear(run.run(), 0)
    whole, needed = content(run.out), disk.used
    for _ in range(6):
        disk.unmount()
        disk.mount(rng.randrange(8192, needed, 4096))
        ended = run.run()
        if ended.code:
            assert_clear(ended, 1)
            assert "No space left on device" in ended.err
            tally["full disks under the results: clear message, resumed byte-identically"] += 1
        disk.resize(LARGE)
        assert_clear(run.run("resume=true"), 0)
        assert_same_results(run.out, whole)


def test_a_full_cache_folder_costs_no_result(
    job: Callable[..., Job], tiny: list[str], disk: Disk, tmp_path: Path, rng: Random, tally: Counter[str]
) -> None:
    command = [*(one for one in tiny if not one.startswith("retriever")), "retriever=bm25", "tracking=none"]
    undisturbed = job(*command, cwd=tmp_path / "undisturbed")
    assert_clear(undisturbed.run(), 0)
    for number in range(3):
        disk.mount(rng.randrange(4096, 16384, 4096))
        full = job(*command, cwd=tmp_path / f"full{number}", RAGTUNE_CACHE=str(disk.folder / "cache"))
        ended = full.run()
        assert_clear(ended, 0)
        assert "going on without it" in ended.err
        for name in ("run.trec", "curve.csv", "per_query.parquet", "traces.jsonl.gz", "curve.png"):
            assert (full.out / name).read_bytes() == (undisturbed.out / name).read_bytes(), name
        disk.unmount()
        tally["full disks under the cache: a warning, the same results"] += 1


def test_a_full_disk_under_the_tracking_store_costs_no_result(
    job: Callable[..., Job], tiny: list[str], disk: Disk, tmp_path: Path, rng: Random, tally: Counter[str]
) -> None:
    disk.mount(LARGE)
    first = job(*tiny, f"tracking.uri=sqlite:///{disk.folder}/mlflow.db", cwd=tmp_path / "undisturbed")
    assert_clear(first.run(), 0)
    whole, needed = content(first.out), disk.used
    for number in range(4):
        uri = f"sqlite:///{disk.folder}/mlflow{number}.db"  # MLflow keeps files open that it knows
        run = job(*tiny, f"tracking.uri={uri}", cwd=tmp_path / f"full{number}")
        disk.unmount()
        disk.mount(rng.randrange(4096, needed, 4096))
        ended = run.run()
        assert_clear(ended, 0)
        summary = read_summary(run.out)
        assert summary is not None
        disk.resize(LARGE)
        if summary.mlflow_run_id is None:
            assert ended.err.startswith("warning: tracking failed (")
            assert_clear(replace(run, script="scripts/relog.py", arguments=[str(run.out)]).run(), 0)
            tally["full disks under mlflow.db: results safe, logged later"] += 1
        assert_same_results(run.out, whole)
        assert_tracked_once(uri, run.out)
