"""A real MLflow tracking server on this machine, that can be killed and started again."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from web_pages import end, start_serving


class MlflowServer:
    """Its store is an SQLite file and a folder of artifacts in ``folder``, which is made; its address is ``url``."""

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
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it, where it was before, and wait until it answers."""
        port = int(self.url.rpartition(":")[2] or 0)
        self._process, self.url = start_serving(self._command, "/health", port, env=self._environment)

    def kill(self) -> None:
        """Kill it and its workers; harmless to call again."""
        if self._process is not None:
            end(self._process)
