"""Other people's MCP clients see results and errors: the official TypeScript SDK and the inspector's command line."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from npm_clients import install
from patience import HANG_S
from rerank_server import serving

from ragtune.canonical.service import RagService
from ragtune.canonical.store.memory import MemoryDatabase
from ragtune.embedders.hashing import HashingEmbedder
from ragtune.rerankers.function import FunctionReranker
from ragtune.services.rerank import RerankServer

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("retrieve", {"collection": "none", "query": "tea"}, "unknown-collection"),
    ("retrieve", {"collection": "tea"}, "invalid-request"),
    ("get_collection", {"collection": "none"}, "unknown-collection"),
    ("rerank", {"query": "tea", "documents": ["tea"], "budget": {"docks": 1}}, "invalid-request"),
]


@pytest.fixture(scope="module")
def node_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The clients, installed from the npm registry."""
    return install("mcp_clients", tmp_path_factory.mktemp("node"))


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """URL of MCP, of a server that reranks, with an empty collection ``tea``."""
    ranker = RerankServer(FunctionReranker(lambda _, texts: [text.count("tea") / 10 for text in texts]), "counter")
    with RagService(MemoryDatabase(), {"hashing": HashingEmbedder()}) as service:
        service.create_collection("tea")
        with serving(ranker, service=service, key=None) as address:
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
    candidates = [{"doc_id": "d", "chunk_index": 0, "content": "Tea.", "score": 0.5}]
    calls = [
        ["normalize", {"content": "a\r\nb"}],
        ["rerank", {"query": "tea", "documents": ["tea", "", "tea tea"], "budget": {"docs": 2}}],
        ["rerank", {"query": "tea", "candidates": candidates}],
        ["retrieve", {"collection": "tea", "query": "tea", "plan": '{"mode": "lexical", "k": 3}'}],
        *([name, given] for name, given, _ in REFUSED),
    ]
    good, ranked, block, planned, *refused = run(node_folder, "node", "call.mjs", url, json.dumps(calls))
    assert good["structuredContent"]["text"] == "a\nb"
    assert ranked["structuredContent"]["ragtune"]["spent"]["docs"] == 2
    assert sorted(one["index"] for one in ranked["structuredContent"]["results"]) == [0, 1, 2]
    assert [one["doc_id"] for one in block["structuredContent"]["candidates"]] == ["d"]
    assert planned["structuredContent"] == {"candidates": []}  # the plan was JSON in a string
    for result, (_, _, kind) in zip(refused, REFUSED, strict=True):
        check_problem(result, kind)


def test_the_inspector_lists_the_budgeted_tool_and_sees_results_and_errors(node_folder: Path, url: str) -> None:
    # It reads ../package.json.
    folder = node_folder / "node_modules" / "@modelcontextprotocol" / "inspector-cli" / "build"
    command = ["node", "cli.js", "--cli", url, "--transport", "http", "--method"]
    listed = {tool["name"]: tool for tool in run(folder, *command, "tools/list")["tools"]}
    assert {"query", "documents", "budget", "candidates"} <= set(listed["rerank"]["inputSchema"]["properties"])
    given = {"query": "tea", "documents": json.dumps(["no", "tea"]), "budget": json.dumps({"docs": 1})}
    result = run(folder, *command, "tools/call", "--tool-name", "rerank", *tool_arguments(given))
    assert result["structuredContent"]["ragtune"]["spent"]["docs"] == 1
    tool, wrong, kind = REFUSED[0]
    check_problem(run(folder, *command, "tools/call", "--tool-name", tool, *tool_arguments(wrong)), kind)


@pytest.mark.parametrize("scenario", ["server-initialize", "ping", "tools-list", "dns-rebinding-protection"])
def test_the_conformance_suite_of_mcp_passes(node_folder: Path, url: str, scenario: str) -> None:
    """The scenarios that apply: the others ask for tools, prompts and resources of the suite's own example server."""
    url = url.replace("127.0.0.1", "localhost")
    command = ["node_modules/.bin/conformance", "server", "--url", url, "--scenario", scenario]
    done = subprocess.run(command, cwd=node_folder, capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ", 0 failed, 0 warnings" in done.stdout + done.stderr


def tool_arguments(given: dict[str, Any]) -> list[str]:
    return [part for name, value in given.items() for part in ("--tool-arg", f"{name}={value}")]
