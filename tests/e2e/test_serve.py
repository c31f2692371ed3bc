"""``ragtune serve`` and ``ragtune mcp`` as processes: real ports, real signals, real MCP clients, a real PostgreSQL."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from mcp import Client, StdioServerParameters
from mcp.types import CallToolResult
from patience import HANG_S, wait_until
from serve_process import COMMAND, environment, serving, serving_here
from web_pages import NEEDS_CHROMIUM, browser_page

from ragtune.cli.main import main

KEY = "a-key-of-the-test-suite"
DOCUMENTS = [{"doc_id": "green", "content": "Green tea is steamed."}, {"doc_id": "mate", "content": "Mate is no tea."}]


def databases(folder: Path) -> list[int]:
    """Processes of PostgreSQL that work in the folder."""
    found = []
    for process in psutil.process_iter(["name"]):
        with suppress(psutil.Error):
            if process.info["name"] == "postgres" and Path(process.cwd()).is_relative_to(folder):
                found.append(process.pid)
    return found


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--host", "0.0.0.0", "--store", "memory"], "RAGTUNE_API_KEY"),
        (["--store", "memory", "--timeout", "0"], "timeout_s"),
        (["--store", "memory", "--max-batch", "0"], "--max-batch"),
        (["--dsn", "postgresql://u:hidden@[x"], "dsn"),
        (["--store", "memory", "--embedder", "sentence_transformer"], "--embedder-model"),
    ],
)
def test_bad_input_ends_with_one_line_and_exit_code_2(
    arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in os.environ if name.startswith("RAGTUNE_")]:
        monkeypatch.delenv(name)
    assert main(["serve", "--port", "0", *arguments]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert said in err
    assert "hidden" not in err


def test_a_port_in_use_and_a_database_that_cannot_be_reached_are_told_in_one_line(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert main(["serve", "--store", "memory", "--port", port]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert port in line
    assert main(["serve", "--port", "0", "--dsn", "postgresql://u:hidden@127.0.0.1:1/x"]) == 1
    (line,) = capfd.readouterr().err.splitlines()
    assert "hidden" not in line


def test_a_public_server_asks_for_its_key_and_never_logs_it() -> None:
    with serving("--host", "0.0.0.0", "--store", "memory", "--access-log", RAGTUNE_API_KEY=KEY) as server:
        assert server.ask("GET", "/v1/collections")[0] == 401
        assert server.ask("GET", "/v1/collections", X_API_Key="wrong")[0] == 401
        assert server.ask("GET", "/v1/collections", Authorization=f"Bearer {KEY}") == (200, {"collections": []})
        server.process.send_signal(signal.SIGTERM)
        out, err = server.process.communicate(timeout=HANG_S)
    assert "GET /v1/collections" in err
    assert out == ""  # what was read before is the line that says where
    assert KEY not in out + err


def test_the_embedded_database_stops_with_the_server_and_keeps_what_it_was_given(folder: Path) -> None:
    data_dir = folder / "with a blank"
    with serving("--data-dir", str(data_dir)) as server:
        assert server.ask("GET", "/readyz") == (200, {"status": "ok"})
        assert server.ask("POST", "/v1/collections", {"collection": "tea"})[0] == 200
        status, counts = server.ask("POST", "/v1/ingest", {"collection": "tea", "documents": DOCUMENTS})
        assert (status, counts["inserted"]) == (200, 2)
        assert databases(data_dir)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(HANG_S) == 0
    assert databases(data_dir) == []
    with serving("--data-dir", str(data_dir)) as server:
        status, found = server.ask("POST", "/v1/retrieve", {"collection": "tea", "query": "steamed"})
        assert (status, found["candidates"][0]["doc_id"]) == (200, "green")
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(HANG_S) == 130
    assert databases(data_dir) == []


@pytest.mark.browser
@NEEDS_CHROMIUM
def test_the_page_of_the_api_works_from_the_server_alone_with_the_key_that_is_typed() -> None:
    asked: list[str] = []
    with serving_here("--store", "memory", RAGTUNE_API_KEY=KEY) as server, browser_page() as page:
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"{server.url}/docs")
        page.get_by_role("button", name="Authorize").first.click()
        page.locator("#auth-bearer-value, [aria-label='auth-bearer-value']").first.fill(KEY)
        page.locator(".auth-btn-wrapper .authorize").first.click()
        page.get_by_role("button", name="Close").first.click()
        page.locator("#operations-collections-list_collections .opblock-summary-control").first.click()
        page.get_by_role("button", name="Try it out").click()
        page.get_by_role("button", name="Execute").click()
        answer = page.locator(".live-responses-table").first
        answer.get_by_text("collections", exact=False).first.wait_for()
        assert "200" in answer.inner_text()
    assert {url for url in asked if not url.startswith(server.url)} == set()


def test_a_real_client_uses_the_tools_over_stdio(folder: Path) -> None:
    arguments = [*COMMAND[1:], "mcp", "--data-dir", str(folder)]
    process = StdioServerParameters(command=sys.executable, args=arguments, env=environment())

    async def talk() -> list[CallToolResult]:
        async with Client(process) as client:
            return [
                await client.call_tool("create_collection", {"collection": "tea"}),
                await client.call_tool("ingest", {"collection": "tea", "documents": DOCUMENTS}),
                await client.call_tool("retrieve", {"collection": "tea", "query": "steamed", "plan": {"k": 1}}),
                await client.call_tool("retrieve", {"collection": "none", "query": "steamed"}),
            ]

    results = asyncio.run(talk())
    found, refused = (json.loads(result.content[0].text) for result in results[2:])
    assert [candidate["doc_id"] for candidate in found["candidates"]] == ["green"]
    assert [result.is_error for result in results] == [False, False, False, True]
    assert refused["status"] == 404
    wait_until(lambda: not databases(folder))


def test_a_signal_ends_stdio_while_stdin_is_open_and_the_database_with_it(folder: Path) -> None:
    command = [*COMMAND, "mcp", "--data-dir", str(folder)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=environment(), text=True, **pipes) as process:
        initialize = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        process.stdin.write(
            json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize}) + "\n"
        )
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["result"]["serverInfo"]["name"] == "ragtune"
        assert databases(folder)
        process.send_signal(signal.SIGTERM)
        assert process.wait(HANG_S) == 0
    assert databases(folder) == []
