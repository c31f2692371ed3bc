"""The embedded PostgreSQL server: in any folder, shared by processes, gone with the last of them."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import psycopg
import pytest
from patience import HANG_S

from ragtune.canonical.store.embedded import EmbeddedServer, _find_programs, connect
from ragtune.core.errors import StoreError
from ragtune.embedders.hashing import HashingEmbedder

BUSY = "DO $$ BEGIN FOR i IN 1..2000000000 LOOP NULL; END LOOP; END $$"  # looks at nothing but its own work
EMBEDDER = HashingEmbedder(dims=8)
USE = """
import sys
from ragtune.canonical.store.embedded import EmbeddedServer
with EmbeddedServer(sys.argv[1]) as server:
    print(server.pid, flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def closed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that only this user may enter, below others; what lies elsewhere for its sake is removed as well."""
    monkeypatch.setattr("ragtune.canonical.store.places.OPEN_FOLDER", folder / "open")
    home = folder / "homes" / "somebody"
    home.mkdir(parents=True)
    home.chmod(0o700)
    return home


def is_alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_data_outlive_the_server_in_a_folder_of_any_name_and_length(folder: Path) -> None:
    deep = folder / "with a blank, a comma and a 'quote'" / ("x" * 120)
    for create in (True, False):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with connect(folder=deep) as database:
                database.open("tea", EMBEDDER, create=create)
    assert (deep / "pgdata" / "PG_VERSION").read_text().strip() == "18"


def modes(path: Path) -> dict[Path, int]:
    return {folder: folder.stat().st_mode for folder in (path, *path.parents)}


def test_no_folder_is_opened_for_a_server_that_runs_as_another_user(
    closed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = _find_programs().parents[1]
    for part in package.parent.glob(f"{package.name}*"):
        shutil.copytree(part, closed / part.name, ignore=shutil.ignore_patterns("pginstall"))
    programs = closed / _find_programs().relative_to(package.parent)
    monkeypatch.setattr("ragtune.canonical.store.embedded._find_programs", lambda: programs)
    before = modes(closed)
    for create in (True, False):
        with connect(folder=closed / "data") as database:
            database.open("tea", EMBEDDER, create=create)
            assert modes(closed) == before
    assert modes(closed) == before
    assert (closed / "data" / "pgdata" / "PG_VERSION").read_text().strip() == "18"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's server runs as another user")
def test_where_the_data_lie_instead_is_told_and_data_that_are_shut_off_are_not_replaced(
    closed: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with EmbeddedServer(closed / "data"):
        pass
    place = (closed / "data" / "pgdata").resolve()
    assert f"{closed}" in caplog.text
    assert f"{place}" in caplog.text
    (closed / "data" / "pgdata").unlink()
    place.rename(closed / "data" / "pgdata")
    with pytest.raises(StoreError, match="Permission denied"):
        EmbeddedServer(closed / "data")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's server runs as another user")
def test_servers_whose_data_lie_elsewhere_are_created_at_once(closed: Path) -> None:
    with ThreadPoolExecutor() as threads:
        servers = list(threads.map(EmbeddedServer, [closed / name for name in ("a", "b", "c")]))
    assert len({server.pid for server in servers}) == 3
    for server in servers:
        server.close()


def test_it_takes_no_network_connections_and_is_given_no_secret(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "RAGTUNE_DSN", "PGPASSWORD", "ANYTHING"):
        monkeypatch.setenv(name, "hunter2")
    with EmbeddedServer(folder) as server:
        process = psutil.Process(server.pid)
        assert process.net_connections(kind="inet") == []
        environments = [each.environ() for each in (process, *process.children())]
    assert len(environments) > 1
    assert "hunter2" not in str(environments)


def test_processes_share_it_and_one_that_is_killed_lets_go(folder: Path) -> None:
    command = [sys.executable, "-c", USE, str(folder)]
    others = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    pids = {int(other.stdout.readline()) for other in others if other.stdout}
    assert len(pids) == 1
    with EmbeddedServer(folder) as server:
        assert {server.pid} == pids
        others[0].kill()
        others[0].communicate(timeout=HANG_S)  # dead before the last user leaves, who else would leave it the server
        others[1].communicate("\n", timeout=HANG_S)
        assert is_alive(server.pid)
    assert not any(map(is_alive, pids))


def test_a_killed_server_is_started_anew_even_if_a_query_outlives_it(folder: Path) -> None:
    first = EmbeddedServer(folder)
    old = first.pid
    busy = psycopg.connect(first.dsn, autocommit=True)

    def work() -> None:
        with pytest.raises(psycopg.Error):
            busy.execute(BUSY)

    query = threading.Thread(target=work)
    query.start()
    with psycopg.connect(first.dsn, autocommit=True) as other:
        while not other.execute("SELECT 1 FROM pg_stat_activity WHERE query LIKE 'DO %'").fetchone():
            time.sleep(0.01)
    os.kill(old, signal.SIGKILL)
    while is_alive(old):  # on a busy machine it takes a while to die, and is running until then
        time.sleep(0.01)
    with EmbeddedServer(folder) as second:
        assert second.pid != old
        assert is_alive(second.pid)
    query.join(HANG_S)
    assert not query.is_alive()
    first.close()


def test_a_database_whose_server_is_killed_starts_it_again_for_the_next_call(folder: Path) -> None:
    with connect(folder=folder) as database:
        database.open("tea", EMBEDDER, create=True)
        pid = int((folder / "pgdata" / "postmaster.pid").read_text().splitlines()[0])
        session = database.run(lambda connection: connection.info.backend_pid)
        os.kill(session, signal.SIGSTOP)  # on a busy machine it does not see at once that its server is gone
        os.kill(pid, signal.SIGKILL)
        while is_alive(pid):
            time.sleep(0.01)
        with ThreadPoolExecutor() as threads:
            call = threads.submit(database.collections)
            time.sleep(0.2)
            os.kill(session, signal.SIGCONT)
            assert [collection.name for collection in call.result(HANG_S)] == ["tea"]


def test_a_pid_file_left_behind_that_names_a_living_process_of_somebody_else_is_not_believed(folder: Path) -> None:
    with EmbeddedServer(folder):
        left = (folder / "pgdata" / "postmaster.pid").read_text()
    lines = left.splitlines()
    (folder / "pgdata" / "postmaster.pid").write_text("\n".join([str(os.getpid()), *lines[1:]]) + "\n")
    with EmbeddedServer(folder) as server:
        assert server.pid != os.getpid()


def test_a_server_that_cannot_start_says_why(folder: Path) -> None:
    with EmbeddedServer(folder):
        pass
    with (folder / "pgdata" / "postgresql.conf").open("a") as config:
        config.write("no_such_setting = 1\n")
    with pytest.raises(StoreError, match="no_such_setting"):
        EmbeddedServer(folder)
