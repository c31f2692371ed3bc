"""A web page that a command serves, for browser tests."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def served(
    command: Sequence[str], health: str, wait_for: Callable[..., None], *, cwd: Path, env: Mapping[str, str]
) -> Iterator[str]:
    """Where ``command --port N`` serves, from when its ``health`` path answers; killed with its children at the end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [*command, "--port", str(port)],
        cwd=cwd,
        env=env,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        with suppress(OSError):
            return urllib.request.urlopen(url + health, timeout=1).status == 200
        return False

    try:
        wait_for(answers, 90)
        yield url
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
