"""A real MLflow tracking server on this machine, that can be killed and started again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from command_line import wait_for


class MlflowServer:
    """Its store is an SQLite file and a folder of artifacts in ``folder``, which is made."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        folder.mkdir()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.store = f"sqlite:///{folder}/mlflow.db"
        files = ["--backend-store-uri", self.store, "--artifacts-destination", str(folder / "files")]
        self._command = [sys.executable, "-m", "mlflow", "server", "--workers", "1", "--port", str(port), *files]
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Of the server's process group."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it and wait until it answers."""
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(self._command, env=self._environment, start_new_session=True, **quiet)
        wait_for(self._answers, 90)

    def kill(self) -> None:
        """Kill it and its workers; harmless to call again."""
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _answers(self) -> bool:
        with suppress(OSError):
            return bool(urllib.request.urlopen(f"{self.url}/health", timeout=1).status == 200)
        return False
