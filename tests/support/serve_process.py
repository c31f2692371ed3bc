"""``ragtune serve``: as a process, which takes 2 s of CPU to start, or in a thread of this one."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
import uvicorn
from patience import HANG_S, wait_until

from ragtune.cli.main import main

COMMAND = [sys.executable, "-m", "ragtune"]


def environment(**variables: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAGTUNE_")}
    return {**kept, "HF_HUB_OFFLINE": "1", **variables}


@dataclass
class Served:
    """A running ``ragtune serve``."""

    url: str
    process: subprocess.Popen[str] | None = None

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """The status and the JSON of an answer."""
        sent = {"Content-Type": "application/json", **{name.replace("_", "-"): text for name, text in headers.items()}}
        content = None if body is None else json.dumps(body)
        answer = httpx2.request(method, self.url + path, content=content, headers=sent, timeout=HANG_S)
        return answer.status_code, answer.json()

    def rank(self, query: str, documents: list[str]) -> Any:
        status, answer = self.ask("POST", "/v2/rerank", {"query": query, "documents": documents})
        assert status == 200, answer
        return answer


@contextmanager
def serving(*options: str, **variables: str) -> Iterator[Served]:
    """A server on a free port, which SIGTERM ends unless the test did."""
    command = [*COMMAND, "serve", "--port", "0", *options]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, env=environment(**variables), **pipes) as process:
        try:
            line = process.stdout.readline()
            assert line.startswith("ragtune: serving http://"), line + str(process.stderr and process.stderr.read())
            yield Served(line.split()[2], process)
        finally:
            if process.poll() is None:
                process.terminate()
                assert process.wait(HANG_S) == 0


@contextmanager
def serving_here(*options: str, **variables: str) -> Iterator[Served]:
    """The same command in this process."""
    begun: list[uvicorn.Server] = []
    start = uvicorn.Server.startup

    async def startup(server: uvicorn.Server, sockets: Any = None) -> None:
        await start(server, sockets)
        begun.append(server)

    with pytest.MonkeyPatch.context() as here, ThreadPoolExecutor(1) as thread:
        here.setattr(uvicorn.Server, "startup", startup)
        for name, value in variables.items():
            here.setenv(name, value)
        code = thread.submit(main, ["serve", "--port", "0", *options])
        wait_until(lambda: begun or code.done())
        assert begun, code.result()
        try:
            yield Served(f"http://127.0.0.1:{begun[0].servers[0].sockets[0].getsockname()[1]}")
        finally:
            begun[0].should_exit = True
            assert code.result(HANG_S) == 0
