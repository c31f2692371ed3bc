"""Other people's MCP clients see results and errors: the official TypeScript SDK and the inspector's command line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from patience import HANG_S, wait_until

from ragtune.canonical.service import RagService
from ragtune.canonical.store.memory import MemoryDatabase
from ragtune.embedders.hashing import HashingEmbedder
from ragtune.services.application import create_application
from ragtune.services.limits import ServerLimits
from ragtune.services.security import Security

CLIENTS = Path(__file__).parents[2] / "support" / "mcp_clients"
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("retrieve", {"collection": "none", "query": "tea"}, "unknown-collection"),
    ("retrieve", {"collection": "tea"}, "invalid-request"),
    ("get_collection", {"collection": "none"}, "unknown-collection"),
]


@pytest.fixture(scope="module")
def node_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The clients, installed from the npm registry."""
    folder = tmp_path_factory.mktemp("node") / "clients"
    shutil.copytree(CLIENTS, folder)
    if shutil.which("npm") is None:
        missing("there is no npm on this machine: apt-get install npm")
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=HANG_S)
    if done.returncode != 0:
        missing(f"npm cannot install the clients: {done.stderr[-500:]}")
    return folder


def missing(reason: str) -> None:
    """Skip on a developer's machine, fail where every test must run."""
    (pytest.fail if "RAGTUNE_CI" in os.environ else pytest.skip)(reason)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """URL of MCP, of a server with an empty collection ``tea``."""
    with RagService(MemoryDatabase(), {"hashing": HashingEmbedder()}) as service:
        service.create_collection("tea")
        app = create_application(service, Security(), ServerLimits())
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
        thread = threading.Thread(target=server.run)
        thread.start()
        wait_until(lambda: server.started or not thread.is_alive())
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/mcp"
        server.should_exit = True
        thread.join(HANG_S)


def run(folder: Path, *command: str) -> Any:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check_problem(result: Any, kind: str) -> None:
    assert isinstance(result, dict), result  # else what the client made of it
    assert result["isError"]
    assert "structuredContent" not in result
    assert json.loads(result["content"][0]["text"])["type"] == f"urn:ragtune:problem:{kind}"


def test_the_typescript_sdk_sees_results_and_errors(node_folder: Path, url: str) -> None:
    calls = [["normalize", {"content": "a\r\nb"}], *([name, given] for name, given, _ in REFUSED)]
    good, *refused = run(node_folder, "node", "call.mjs", url, json.dumps(calls))
    assert good["structuredContent"]["text"] == "a\nb"
    for result, (_, _, kind) in zip(refused, REFUSED, strict=True):
        check_problem(result, kind)


@pytest.mark.parametrize(("tool", "given", "kind"), REFUSED)
def test_the_inspector_sees_errors(node_folder: Path, url: str, tool: str, given: dict[str, Any], kind: str) -> None:
    arguments = [part for name, value in given.items() for part in ("--tool-arg", f"{name}={value}")]
    folder = (
        node_folder / "node_modules" / "@modelcontextprotocol" / "inspector-cli" / "build"
    )  # it reads ../package.json
    command = ["node", "cli.js", "--cli", url, "--transport", "http", "--method", "tools/call", "--tool-name", tool]
    check_problem(run(folder, *command, *arguments), kind)
