"""``ragtune serve`` as a process."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
from patience import HANG_S

COMMAND = [sys.executable, "-m", "ragtune"]


def environment(**variables: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAGTUNE_")}
    return {**kept, "HF_HUB_OFFLINE": "1", **variables}


@dataclass
class Served:
    """A running ``ragtune serve``."""

    process: subprocess.Popen[str]
    url: str

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
            yield Served(process, line.split()[2])
        finally:
            if process.poll() is None:
                process.terminate()
                assert process.wait(HANG_S) == 0
