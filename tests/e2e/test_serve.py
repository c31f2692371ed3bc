"""``ragtune serve`` and ``ragtune mcp`` as processes: real ports, real signals, real MCP clients, a real PostgreSQL."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult
from patience import HANG_S, wait_until
from web_pages import NEEDS_CHROMIUM, browser_page

from ragtune.cli.main import main

ROOT = Path(__file__).parents[2]
KEY = "a-key-of-the-test-suite"
COMMAND = [sys.executable, "-m", "ragtune"]
DOCUMENTS = [{"doc_id": "green", "content": "Green tea is steamed."}, {"doc_id": "mate", "content": "Mate is no tea."}]


def environment(**variables: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAGTUNE_")}
    return {**kept, **variables}


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, *arguments]
    return subprocess.run(command, env=environment(**variables), capture_output=True, text=True, timeout=HANG_S)


class Server:
    """A running ``ragtune serve``."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process = process
        self.url = url
        self.port = int(url.rsplit(":", 1)[1])

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=HANG_S)
        sent = {"Content-Type": "application/json", **{name.replace("_", "-"): text for name, text in headers.items()}}
        connection.request(method, path, None if body is None else json.dumps(body), sent)
        response = connection.getresponse()
        content = json.loads(response.read())
        connection.close()
        return response.status, content


@contextmanager
def serving(*arguments: str, **variables: str) -> Iterator[Server]:
    command = [*COMMAND, "serve", "--port", "0", *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(**variables)
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("ragtune: serving http://"), line + str(process.stderr and process.stderr.read())
            yield Server(process, line.split()[2])
        finally:
            with suppress(ProcessLookupError):
                process.kill()


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """Open to the user that PostgreSQL runs as where tests run as root, unlike pytest's own folders."""
    folder = Path(tempfile.mkdtemp(prefix="ragtune-serve-"))
    folder.chmod(0o755)
    yield folder / "with a blank"
    shutil.rmtree(folder, ignore_errors=True)


def databases(folder: Path) -> list[int]:
    """Processes of PostgreSQL that work in the folder."""
    found = []
    for process in psutil.process_iter(["name"]):
        with suppress(psutil.Error):
            if process.info["name"] == "postgres" and Path(process.cwd()).is_relative_to(folder):
                found.append(process.pid)
    return found


def fill(server: Server) -> None:
    assert server.ask("POST", "/v1/collections", {"collection": "tea"})[0] == 200
    status, counts = server.ask("POST", "/v1/ingest", {"collection": "tea", "documents": DOCUMENTS})
    assert (status, counts["inserted"]) == (200, 2)


def test_help_is_there_and_loads_nothing_heavy() -> None:
    code = "import sys, ragtune.cli.main; print(*sorted({'fastapi', 'mcp', 'psycopg', 'uvicorn'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=HANG_S)
    assert done.stdout.strip() == ""
    assert "serve" in run("--help").stdout
    assert "--api-key-env" in run("serve", "--help").stdout


def test_the_script_is_installed_under_its_name() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    module, _, name = scripts["ragtune"].partition(":")
    assert callable(getattr(import_module(module), name))


@pytest.mark.parametrize(
    ("arguments", "variables", "said"),
    [
        (["--host", "0.0.0.0", "--store", "memory"], {}, "RAGTUNE_API_KEY"),
        (["--host", "0.0.0.0", "--store", "memory", "--api-key-env", "NONE"], {"RAGTUNE_API_KEY": KEY}, "NONE"),
        (["--store", "memory"], {"RAGTUNE_API_KEY": "short"}, "at least 16"),
        (["--store", "memory", "--port", "70000"], {}, "70000"),
        (["--store", "memory", "--host", "no.such.host.invalid"], {"RAGTUNE_API_KEY": KEY}, "no.such.host.invalid"),
        (["--store", "memory", "--timeout", "0"], {}, "timeout_s"),
        (["--store", "memory", "--max-k", "0"], {}, "--max-k"),
        (["--store", "memory", "--dsn", "host=x"], {}, "--dsn"),
        (["--dsn", "postgresql://u:hidden@[x"], {}, "dsn"),
        (["--store", "memory", "--embedder-dims", "0"], {}, "dims"),
        (["--store", "memory", "--embedder", "sentence_transformer"], {}, "--embedder-model"),
        (["--store", "memory", "--reranker", "cross_encoder"], {}, "--reranker-model"),
    ],
)
def test_bad_input_ends_with_one_line_and_exit_code_2(
    arguments: list[str],
    variables: dict[str, str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for name in [name for name in os.environ if name.startswith("RAGTUNE_")]:
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert main(["serve", "--port", "0", *arguments]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert said in err
    assert "hidden" not in err


def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("serve", "--store", "memory", "--port", str(port))
    assert done.returncode == 2
    assert str(port) in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_server_that_cannot_be_reached_ends_with_one_line() -> None:
    done = run("serve", "--port", "0", "--dsn", "postgresql://u:hidden@127.0.0.1:1/x")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "hidden" not in done.stderr


def test_a_public_server_asks_for_its_key_and_never_logs_it() -> None:
    arguments = ("--host", "0.0.0.0", "--store", "memory", "--access-log", "--api-key-env", "MY_KEY")
    with serving(*arguments, MY_KEY=KEY) as server:
        assert server.ask("GET", "/v1/collections")[0] == 401
        assert server.ask("GET", "/v1/collections", X_API_Key="wrong")[0] == 401
        assert server.ask("GET", "/v1/collections", Authorization=f"Bearer {KEY}") == (200, {"collections": []})
        server.process.send_signal(signal.SIGTERM)
        out, err = server.process.communicate(timeout=HANG_S)
    assert "GET /v1/collections" in err
    assert out == ""  # what was read before is the line that says where
    assert KEY not in out + err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_the_embedded_database_stops_with_the_server_and_keeps_what_it_was_given(
    data_dir: Path, number: signal.Signals, code: int
) -> None:
    with serving("--data-dir", str(data_dir)) as server:
        assert server.ask("GET", "/readyz") == (200, {"status": "ok"})
        fill(server)
        assert databases(data_dir)
        server.process.send_signal(number)
        assert server.process.wait(HANG_S) == code
    assert databases(data_dir) == []
    with serving("--data-dir", str(data_dir), "--mcp", "none") as server:
        status, found = server.ask("POST", "/v1/retrieve", {"collection": "tea", "query": "steamed"})
        assert (status, found["candidates"][0]["doc_id"]) == (200, "green")
        assert server.ask("POST", "/mcp", {})[0] == 404
        server.process.terminate()
        assert server.process.wait(HANG_S) == 0
    assert databases(data_dir) == []


def test_a_database_that_is_killed_comes_back_and_nothing_acknowledged_is_lost(data_dir: Path) -> None:
    acknowledged: list[str] = []

    def write(server: Server) -> None:
        while len(acknowledged) < 60:
            document = {"doc_id": f"d{len(acknowledged):03d}", "content": "Tea again."}
            if server.ask("POST", "/v1/ingest", {"collection": "tea", "documents": [document]})[0] == 200:
                acknowledged.append(document["doc_id"])

    with serving("--data-dir", str(data_dir), OPENAI_API_KEY="hunter2") as server:
        assert server.ask("POST", "/v1/collections", {"collection": "tea"})[0] == 200
        assert "hunter2" not in str([psutil.Process(pid).environ() for pid in databases(data_dir)])
        writer = threading.Thread(target=write, args=[server])
        writer.start()
        wait_until(lambda: len(acknowledged) > 10)
        before = set(databases(data_dir))
        for pid in before:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: server.ask("GET", "/readyz")[0] == 200)
        writer.join(HANG_S)
        assert len(acknowledged) == 60
        status, found = server.ask("GET", "/v1/collections/tea/documents?limit=1000")
        assert (status, found["doc_ids"]) == (200, acknowledged)
        assert not before & set(databases(data_dir))
        server.process.terminate()
        assert server.process.wait(HANG_S) == 0
    assert databases(data_dir) == []


def is_refused(port: int) -> bool:
    """Whether nobody listens there."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=HANG_S).close()
    except ConnectionError:
        return True
    return False


def test_requests_under_way_are_finished_before_the_server_stops() -> None:
    with serving("--store", "memory") as server:
        fill(server)
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=HANG_S)
        body = json.dumps({"collection": "tea", "query": "tea"}).encode()
        connection.putrequest("POST", "/v1/retrieve")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", str(len(body)))
        connection.putheader("Expect", "100-continue")
        connection.endheaders()
        # Asked for the body: the request is under way before the signal.
        assert connection.sock.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        server.process.terminate()
        wait_until(lambda: is_refused(server.port))
        connection.send(body)
        response = connection.getresponse()
        assert response.status == 200
        assert len(json.loads(response.read())["candidates"]) == 2
        assert server.process.wait(HANG_S) == 0


def test_a_chunked_body_beyond_the_limit_is_cut_off() -> None:
    with serving("--store", "memory", "--max-body", "100000") as server:
        with socket.create_connection(("127.0.0.1", server.port), timeout=HANG_S) as client:
            head = "POST /v1/normalize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            client.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
            part = b"2710\r\n" + b"x" * 10_000 + b"\r\n"
            with suppress(ConnectionError):  # it may be closed while we still send
                for _ in range(50):
                    client.sendall(part)
                    time.sleep(0.005)
            assert client.recv(100).startswith(b"HTTP/1.1 413 ")
        assert server.ask("GET", "/healthz")[0] == 200


def connected(server: Server, is_used: bool) -> socket.socket:
    """A connection, over which a request was answered already if it is used."""
    while True:
        client = socket.create_connection(("127.0.0.1", server.port), timeout=HANG_S)
        if not is_used:
            return client
        answered = b""
        with suppress(ConnectionError):
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            while more := client.recv(1000):
                answered += more
                if answered.endswith(b'{"status":"ok"}'):
                    return client
        client.close()  # a busy machine was too late with the request


@pytest.mark.browser
@NEEDS_CHROMIUM
def test_the_page_of_the_api_works_from_the_server_alone_with_the_key_that_is_typed() -> None:
    asked: list[str] = []
    with serving("--store", "memory", RAGTUNE_API_KEY=KEY) as server, browser_page() as page:
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


async def use(client: Client) -> list[CallToolResult]:
    await client.list_tools()
    return [
        await client.call_tool("create_collection", {"collection": "tea"}),
        await client.call_tool("ingest", {"collection": "tea", "documents": DOCUMENTS}),
        await client.call_tool("retrieve", {"collection": "tea", "query": "steamed", "plan": {"k": 1}}),
        await client.call_tool("retrieve", {"collection": "none", "query": "steamed"}),
    ]


def check(results: list[CallToolResult]) -> None:
    created, _, found, refused = (json.loads(result.content[0].text) for result in results)
    assert created["name"] == "tea"
    assert [candidate["doc_id"] for candidate in found["candidates"]] == ["green"]
    assert [result.is_error for result in results] == [False, False, False, True]
    assert refused["status"] == 404


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_real_client_uses_the_tools_over_streamable_http_with_the_key(mode: str) -> None:
    async def talk(url: str, headers: dict[str, str]) -> list[CallToolResult]:
        async with (
            httpx2.AsyncClient(headers=headers, timeout=HANG_S) as connection,
            Client(streamable_http_client(url, http_client=connection), mode=mode) as client,
        ):
            return await use(client)

    with serving("--store", "memory", RAGTUNE_API_KEY=KEY) as server:
        url = f"{server.url}/mcp"
        check(asyncio.run(talk(url, {"Authorization": f"Bearer {KEY}"})))
        with pytest.raises(BaseException):  # noqa: B017, PT011
            asyncio.run(talk(url, {"Authorization": "Bearer wrong"}))
        _, listed = server.ask("GET", "/v1/collections", X_API_Key=KEY)
        assert [one["name"] for one in listed["collections"]] == ["tea"]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_real_client_uses_the_tools_over_stdio(data_dir: Path, mode: str) -> None:
    arguments = [*COMMAND[1:], "mcp", "--data-dir", str(data_dir)]
    process = StdioServerParameters(command=sys.executable, args=arguments, env=environment())

    async def talk() -> list[CallToolResult]:
        async with Client(process, mode=mode) as client:
            return await use(client)

    check(asyncio.run(talk()))
    wait_until(lambda: not databases(data_dir))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_stdio_while_stdin_is_open_and_the_database_with_it(
    data_dir: Path, number: signal.Signals
) -> None:
    command = [*COMMAND, "mcp", "--data-dir", str(data_dir)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=environment(), text=True, **pipes) as process:
        initialize = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize}
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(message) + "\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["result"]["serverInfo"]["name"] == "ragtune"
        assert databases(data_dir)
        process.send_signal(number)
        assert process.wait(HANG_S) == 0
    assert databases(data_dir) == []
