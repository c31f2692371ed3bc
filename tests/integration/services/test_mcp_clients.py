"""Other people's MCP clients see results and errors: the official TypeScript SDK and the inspector's command line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from patience import HANG_S
from rerank_server import serving

from ragtune.canonical.service import RagService
from ragtune.canonical.store.memory import MemoryDatabase
from ragtune.embedders.hashing import HashingEmbedder

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
        with serving(None, service=service, key=None) as address:
            yield f"{address}/mcp"


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


def test_the_inspector_sees_errors(node_folder: Path, url: str) -> None:
    # It reads ../package.json.
    folder = node_folder / "node_modules" / "@modelcontextprotocol" / "inspector-cli" / "build"
    tool, given, kind = REFUSED[0]
    arguments = [part for name, value in given.items() for part in ("--tool-arg", f"{name}={value}")]
    command = ["node", "cli.js", "--cli", url, "--transport", "http", "--method", "tools/call", "--tool-name", tool]
    check_problem(run(folder, *command, *arguments), kind)
