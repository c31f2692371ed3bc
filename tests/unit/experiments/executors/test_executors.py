"""Shards, and records that are the same whichever executor ran them."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from shard_work import die, die_once, echo, fail

from experiments.config.compose import results_key
from experiments.config.paths import PROJECT_ROOT
from experiments.evaluate.record import QueryRecord
from experiments.replay.executors import shardfiles
from experiments.replay.executors.executor import Executor, WorkersLostError, shards
from experiments.replay.executors.inline import InlineExecutor
from experiments.replay.executors.joblib import JoblibExecutor
from experiments.replay.executors.ray import RayExecutor, _name_of, _worker_of
from experiments.replay.executors.shardfiles import ShardFiles
from ragtune.core.errors import ConfigError, ScoreTableError

IDS = [f"q{i}" for i in range(11)]


def worked_on(executor: Executor, work: Any, config: str, query_ids: list[str]) -> list[Any]:
    """What the work says of each query, in the order in which it comes."""
    return list(chain(*executor.run(work, config, query_ids)))


@pytest.mark.parametrize("count", [1, 2, 3, 10, 11, 12, 100])
def test_shards_are_contiguous_nearly_equal_and_none_empty(count: int) -> None:
    parts = shards(IDS, count)
    assert [q for part in parts for q in part] == IDS
    sizes = [len(part) for part in parts]
    assert len(parts) == min(count, len(IDS))
    assert max(sizes) - min(sizes) <= 1


def test_no_queries_make_no_shards() -> None:
    assert shards([], 4) == []


@pytest.mark.parametrize(
    "executor", [InlineExecutor(), InlineExecutor(together=4), JoblibExecutor(n_jobs=2)], ids=["one", "four", "joblib"]
)
def test_every_query_is_worked_on_once(executor: Executor) -> None:
    assert sorted(worked_on(executor, echo, "c", IDS)) == sorted(f"c:{q}" for q in IDS)
    assert worked_on(executor, echo, "c", []) == []


@pytest.mark.parametrize("executor", [InlineExecutor(), JoblibExecutor(n_jobs=2)], ids=["inline", "joblib"])
def test_an_error_of_the_work_keeps_its_type_and_words(executor: Executor) -> None:
    with pytest.raises(ScoreTableError, match=r"^no score for 'q0'$"):
        list(executor.run(fail, "c", ["q0"]))  # type: ignore[arg-type]


def test_workers_that_die_again_are_told_of_in_words() -> None:
    with pytest.raises(WorkersLostError, match=r"^a worker process died, .*TerminatedWorkerError: A worker process"):
        list(JoblibExecutor(n_jobs=2).run(die, "c", IDS))  # type: ignore[arg-type]


def test_what_a_worker_takes_down_is_given_to_another_and_nothing_is_done_twice(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    done = worked_on(JoblibExecutor(n_jobs=2), die_once, str(tmp_path), IDS)
    assert sorted(done) == sorted(f"{tmp_path}:{q}" for q in IDS)
    assert "warning: a worker process died, killed or out of memory (TerminatedWorkerError: " in capfd.readouterr().err


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: JoblibExecutor(n_jobs=0), "executor.n_jobs=0: allowed is an integer >= 1, or -1"),
        (lambda: JoblibExecutor(n_jobs="many"), "executor.n_jobs='many'"),  # type: ignore[arg-type]
        (lambda: JoblibExecutor(shards_per_job=0), "executor.shards_per_job=0"),
        (lambda: RayExecutor(shards=0), "executor.shards=0: allowed is an integer >= 1"),
        (lambda: RayExecutor(num_cpus=-2), "executor.num_cpus=-2"),
        (lambda: RayExecutor(num_cpus=True), "executor.num_cpus=True"),
        (lambda: RayExecutor(actors=-1), "executor.actors=-1"),
        (lambda: InlineExecutor(together=0), "executor.together=0: allowed is an integer >= 1"),
        (lambda: RayExecutor(num_gpus=-1), "executor.num_gpus=-1"),
        (lambda: list(ShardFiles("ftp://host/folder", "run").finished()), "executor.storage='ftp://host/folder': "),
        *(
            (
                lambda empty=empty: list(ShardFiles(empty, "run").finished()),
                f"executor.storage='{empty}': it names no bucket",
            )
            for empty in ("s3://", "gs://")
        ),
    ],
)
def test_a_bad_argument_is_refused(make, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        make()
    assert said in str(refused.value)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "runs")


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A folder of a real S3 server of this machine."""
    server = pytest.importorskip("moto.server", reason="needs the extra dev").ThreadedMotoServer(port=0, verbose=False)
    server.start()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "anything")
    host, port = server.get_host_and_port()
    yield f"s3://bucket/runs?scheme=http&endpoint_override={host}:{port}&region=us-east-1&allow_bucket_creation=true"
    server.stop()


@pytest.fixture
def gs() -> Iterator[str]:
    """A folder of a real server of this machine that speaks Google's protocol."""
    emulator = pytest.importorskip("gcp_storage_emulator.server", reason="needs the extra dev")
    with emulator.create_server("127.0.0.1", 0, in_memory=True, default_bucket="bucket") as server:
        port = server._api._httpd.server_port
        yield f"gs://anonymous@bucket/runs?scheme=http&endpoint_override=127.0.0.1:{port}"


@pytest.mark.parametrize("kind", ["folder", "s3", "gs"])
def test_finished_shards_outlive_the_process_on_a_disk_and_in_object_storage(
    kind: str, fakes: SimpleNamespace, request: pytest.FixtureRequest
) -> None:
    storage = request.getfixturevalue(kind)
    output = fakes.controller(documents=fakes.docs(4)).run("query", query_id="q")
    records = [replace(QueryRecord.of(output), query_id=query_id) for query_id in ("q0", "q1", "q2")]
    files, other = ShardFiles(storage, "run"), ShardFiles(storage, "another run")
    assert list(files.finished()) == []
    name = files.write(records[:2])
    other.write(records)
    assert files.write(records[:2]) == name  # by a worker that was thought dead
    assert files.read(name) == records[:2]
    files.write(records[2:])
    taken_over = ShardFiles(storage, "run")
    assert sorted(chain(*taken_over.finished()), key=lambda record: record.query_id) == records
    for _ in range(2):  # the second time by a driver that takes over from one that died right after the first
        taken_over.clear()
        assert list(files.finished()) == []
    assert list(other.finished()) == [records]


def test_object_storage_of_google_that_is_not_reached_is_told_of_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shardfiles, "_GCS_PATIENCE_S", 1)
    storage = "gs://anonymous@bucket/runs?scheme=http&endpoint_override=127.0.0.1:9"
    with pytest.raises(ConfigError, match=r"^executor\.storage='gs://anonymous@.*Could not connect to server"):
        list(ShardFiles(storage, "run").finished())


def test_shards_of_a_driver_that_died_with_all_of_them_in_its_journal_are_removed_too(
    tmp_path: Path, fakes: SimpleNamespace, compose_tiny: Callable[..., dict[str, Any]]
) -> None:
    pytest.importorskip("ray", reason="needs the extra ray")
    config, storage = results_key(compose_tiny()), tmp_path / "storage"
    record = QueryRecord.of(fakes.controller(documents=fakes.docs(4)).run("query", query_id="q0"))
    ShardFiles(str(storage), _name_of(config)).write([record])
    assert list(RayExecutor(storage=str(storage)).run(echo, config, [])) == []  # type: ignore[arg-type]
    assert list(storage.iterdir()) == []


def test_what_a_former_driver_left_is_taken_once_and_not_replayed(
    tmp_path: Path,
    fakes: SimpleNamespace,
    compose_tiny: Callable[..., dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ray, config = pytest.importorskip("ray", reason="needs the extra ray"), results_key(compose_tiny())
    output = fakes.controller(documents=fakes.docs(4)).run("query", query_id="q")
    records = [replace(QueryRecord.of(output), query_id=query_id) for query_id in ("q0", "q1", "q2", "q3")]
    for some in (records[:2], records[1:]):
        ShardFiles(str(tmp_path), _name_of(config)).write(some)
    monkeypatch.setattr(ray, "init", None)  # which nothing needs
    taken = worked_on(RayExecutor(storage=str(tmp_path)), echo, config, ["q0", "q1", "q3"])  # the journal has q2
    assert sorted(taken, key=lambda record: record.query_id) == [records[0], records[1], records[3]]


def test_a_worker_elsewhere_works_in_the_drivers_folder_where_it_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    pickled = pickle.dumps((echo, None))
    for home, there in ((tmp_path, tmp_path), (tmp_path / "missing", Path("/"))):
        monkeypatch.chdir("/")
        assert _worker_of(str(PROJECT_ROOT), str(home))(pickled, "c", ["q0"]) == ["c:q0"]
        assert Path.cwd() == there


def test_a_worker_elsewhere_writes_where_the_driver_looks(
    tmp_path: Path, fakes: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = QueryRecord.of(fakes.controller(documents=fakes.docs(4)).run("query", query_id="q0"))
    for name in ("driver", "worker"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "driver")
    files = ShardFiles("shards", "run")
    monkeypatch.chdir(tmp_path / "worker")
    pickle.loads(pickle.dumps(files)).write([record])
    monkeypatch.chdir(tmp_path / "driver")
    assert list(files.finished()) == [[record]]


def test_shards_of_a_former_version_which_are_not_compressed_are_found(tmp_path: Path, fakes: SimpleNamespace) -> None:
    record = QueryRecord.of(fakes.controller(documents=fakes.docs(4)).run("query", query_id="q0"))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "0123456789abcdef.jsonl").write_bytes(record.to_line() + b"\n")
    assert list(ShardFiles(str(tmp_path), "run").finished()) == [[record]]


@pytest.mark.parametrize("damage", [lambda content: content[:-9], lambda content: b"\x00" * len(content)])
def test_a_damaged_shard_counts_as_unfinished(
    tmp_path: Path, fakes: SimpleNamespace, damage: Callable[[bytes], bytes]
) -> None:
    output = fakes.controller(documents=fakes.docs(4)).run("query", query_id="q")
    first, second = (replace(QueryRecord.of(output), query_id=query_id) for query_id in ("q0", "q1"))
    files = ShardFiles(str(tmp_path), "run")
    file = tmp_path / "run" / files.write([first])
    files.write([second])
    file.write_bytes(damage(file.read_bytes()))
    assert list(chain(*files.finished())) == [second]
