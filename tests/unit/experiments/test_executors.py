"""Shards, and records that are the same whichever executor ran them."""

import pickle
import sys
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from shard_work import die_once, echo

from experiments.config.paths import PROJECT_ROOT
from experiments.replay.executors import Executor, InlineExecutor, JoblibExecutor, RayExecutor, shards, worker_of
from ragtune.core.errors import ConfigError

IDS = [f"q{i}" for i in range(11)]


def worked_on(executor: Executor, work: Any, config: str, query_ids: list[str]) -> list[Any]:
    """What the work says of each query, in the order in which it comes."""
    return list(chain(*executor.run(partial(work, config), query_ids)))


@pytest.mark.parametrize("count", [1, 2, 3, 10, 11, 12, 100])
def test_shards_are_contiguous_nearly_equal_and_none_empty(count: int) -> None:
    parts = shards(IDS, count)
    assert [q for part in parts for q in part] == IDS
    sizes = [len(part) for part in parts]
    assert len(parts) == min(count, len(IDS))
    assert max(sizes) - min(sizes) <= 1


def test_what_a_worker_takes_down_is_given_to_another_and_nothing_is_done_twice(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    done = worked_on(JoblibExecutor(n_jobs=2), die_once, str(tmp_path), IDS)
    assert sorted(done) == sorted(f"{tmp_path}:{q}" for q in IDS)
    assert "warning: a worker process died, killed or out of memory (TerminatedWorkerError: " in capfd.readouterr().err


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: JoblibExecutor(n_jobs=0), "executor.n_jobs=0: allowed is a whole number >= 1, or -1"),
        (lambda: RayExecutor(shards=0), "executor.shards=0: allowed is a whole number >= 1"),
        (lambda: RayExecutor(num_cpus=True), "executor.num_cpus=True"),
        (lambda: InlineExecutor(together=0), "executor.together=0: allowed is a whole number >= 1"),
    ],
)
def test_a_bad_argument_is_refused(make, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        make()
    assert said in str(refused.value)


def test_a_worker_elsewhere_works_in_the_drivers_folder_where_it_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    pickled = pickle.dumps(partial(echo, "c"))
    for home, there in ((tmp_path, tmp_path), (tmp_path / "missing", Path("/"))):
        monkeypatch.chdir("/")
        assert worker_of(str(PROJECT_ROOT), str(home))(pickled, ["q0"]) == ["c:q0"]
        assert Path.cwd() == there
