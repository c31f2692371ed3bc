"""Who may ask, from where, and how much may be sent: the same for REST and MCP, which lie behind one protection."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from ragtune.canonical.service import RagService
from ragtune.core.errors import ConfigError
from ragtune.services.application import create_application
from ragtune.services.limits import ServerLimits
from ragtune.services.security import Security, is_loopback, secure

KEY = "correct-horse-battery"
LIST_TOOLS = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
JSON = {"Accept": "application/json", "Content-Type": "application/json"}


@pytest.fixture
def make_server(service: RagService) -> Iterator[Callable[..., TestClient]]:
    """``make_server(security, limits)``: both adapters, running."""
    running = []

    def make(security: Security, limits: ServerLimits | None = None) -> TestClient:
        app = create_application(service, security, limits or ServerLimits())
        running.append(TestClient(app, base_url="http://localhost", raise_server_exceptions=False))
        return running[-1].__enter__()

    yield make
    for client in running:
        client.__exit__(None, None, None)


def statuses(client: TestClient, **headers: str) -> list[int]:
    """Of a request to REST and one to MCP."""
    sent = {**JSON, **{name.replace("_", "-"): value for name, value in headers.items()}}
    rest = client.get("/v1/collections", headers=sent)
    mcp = client.post("/mcp", json=LIST_TOOLS, headers=sent)
    for response in (rest, mcp):
        if response.status_code != 200:
            assert response.headers["content-type"] == "application/problem+json"
            assert response.json()["status"] == response.status_code
    return [rest.status_code, mcp.status_code]


def test_a_server_with_a_key_answers_nobody_without_it(make_server: Callable[..., TestClient]) -> None:
    client = make_server(Security(api_key=KEY))
    assert statuses(client, Authorization=f"Bearer {KEY}") == [200, 200]
    assert statuses(client, Authorization=f"bearer {KEY}") == [200, 200]
    assert statuses(client, X_API_Key=KEY) == [200, 200]
    for wrong in (
        {},
        {"X_API_Key": ""},
        {"X_API_Key": KEY[:-1]},
        {"Authorization": KEY},
        {"X_API_Key": "ключ".encode()},
    ):
        assert statuses(client, **wrong) == [401, 401]
    assert statuses(client, Authorization=f"Basic {KEY}") == [401, 401]
    assert client.get("/v1/collections").headers["www-authenticate"] == "Bearer"
    assert client.get("/nowhere").status_code == 401


def test_health_needs_no_key(make_server: Callable[..., TestClient]) -> None:
    client = make_server(Security(api_key=KEY))
    assert [client.get(path).status_code for path in ("/healthz", "/readyz")] == [200, 200]
    assert client.get("/healthz/").status_code != 200


def test_the_key_is_shown_nowhere() -> None:
    assert KEY not in repr(Security(api_key=KEY))


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "[::2]", "0.0.0.0"]
)
def test_a_name_that_was_made_to_resolve_to_this_machine_is_refused(
    make_server: Callable[..., TestClient], host: str
) -> None:
    assert statuses(make_server(Security()), Host=host) == [421, 421]


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8080", "127.0.0.1:1", "[::1]:8080"])
def test_names_of_loopback_are_known(make_server: Callable[..., TestClient], host: str) -> None:
    assert statuses(make_server(Security()), Host=host) == [200, 200]


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "null", "http://localhost.evil.example", "file://localhost", "http://[", "localhost"],
)
def test_pages_from_elsewhere_are_refused(make_server: Callable[..., TestClient], origin: str) -> None:
    assert statuses(make_server(Security()), Origin=origin) == [403, 403]


@pytest.mark.parametrize("origin", ["http://localhost:3000", "http://127.0.0.1", "https://app.example"])
def test_local_and_allowed_pages_may_ask(make_server: Callable[..., TestClient], origin: str) -> None:
    client = make_server(Security(allowed_origins=frozenset({"https://app.example"})))
    assert statuses(client, Origin=origin) == [200, 200]


def test_a_public_server_knows_its_own_pages_only(make_server: Callable[..., TestClient]) -> None:
    client = make_server(Security(api_key=KEY, allowed_hosts=None))
    key = {"X_API_Key": KEY, "Host": "rag.example"}
    assert statuses(client, **key) == [200, 200]
    assert statuses(client, **key, Origin="https://rag.example") == [200, 200]
    assert statuses(client, **key, Origin="http://localhost") == [403, 403]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.168.1.7", "rag.example", "127.0.0.1.evil.example"])
def test_only_loopback_is_served_without_a_key(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    monkeypatch.delenv("RAGTUNE_API_KEY", raising=False)
    assert not is_loopback(host)
    with pytest.raises(ConfigError, match="RAGTUNE_API_KEY"):
        secure(host)
    monkeypatch.setenv("RAGTUNE_API_KEY", KEY)
    assert secure(host).api_key == KEY


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_loopback_needs_no_key_but_takes_one(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    monkeypatch.delenv("RAGTUNE_API_KEY", raising=False)
    assert secure(host).api_key is None
    monkeypatch.setenv("OTHER", KEY)
    assert secure(host, "OTHER").api_key == KEY
    assert secure(host, allowed_hosts=frozenset({"box"})).allowed_hosts >= {"box", "localhost", host}


@pytest.mark.parametrize(
    "key", ["short", "with a space in the middle", "schlüssel-schlüssel", "tab\tand sixteen characters"]
)
def test_a_key_that_cannot_be_a_good_one_is_refused_without_quoting_it(
    monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("RAGTUNE_API_KEY", key)
    with pytest.raises(ConfigError) as caught:
        secure("127.0.0.1")
    assert key not in str(caught.value)


def test_a_key_given_as_the_variables_name_is_not_quoted() -> None:
    with pytest.raises(ConfigError) as caught:
        secure("127.0.0.1", "sk-0123456789abcdef")
    assert "sk-" not in str(caught.value)


def test_bodies_beyond_the_limit_are_refused_whether_declared_or_not(make_server: Callable[..., TestClient]) -> None:
    client = make_server(Security(), ServerLimits(body_bytes=1000))
    for path in ("/v1/normalize", "/mcp"):
        fits = client.post(path, json={"content": "x" * 900}, headers=JSON)
        assert fits.status_code in (200, 400)
        declared = client.post(path, content=b" " * 1001, headers=JSON)
        assert declared.status_code == 413
        assert declared.headers["connection"] == "close"
    asyncio.run(undeclared(client))


async def undeclared(client: TestClient) -> None:
    """A body without a length and without an end: only what the limit allows is read."""
    for path in ("/v1/normalize", "/mcp"):
        read: list[int] = []

        async def receive(read: list[int] = read) -> dict[str, Any]:
            read.append(1)
            return {"type": "http.request", "body": b"x" * 100, "more_body": True}

        assert await status_of(client, path, receive) == 413
        assert len(read) == 11


async def status_of(client: TestClient, path: str, receive: Callable[[], Any]) -> int | None:
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": path, "headers": headers, "query_string": b"", "raw_path": b""}
    await client.app({**scope, "http_version": "1.1", "scheme": "http", "client": None, "server": None}, receive, send)
    return sent[0]["status"] if sent else None


def test_a_request_that_never_ends_is_given_up(make_server: Callable[..., TestClient]) -> None:
    client = make_server(Security(), ServerLimits(timeout_s=0.2))

    async def trickle() -> dict[str, Any]:
        await asyncio.sleep(0.05)
        return {"type": "http.request", "body": b"x", "more_body": True}

    assert asyncio.run(status_of(client, "/v1/normalize", trickle)) == 408


def test_a_client_that_goes_away_gets_no_answer(make_server: Callable[..., TestClient]) -> None:
    client = make_server(Security())

    async def leave() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    assert asyncio.run(status_of(client, "/v1/normalize", leave)) is None


def test_the_page_of_the_api_and_its_description_are_open(make_server: Callable[..., TestClient]) -> None:
    client = make_server(Security(api_key=KEY))
    page = client.get("/docs").text
    parts = [part for part in re.findall(r'(?:href|src)="([^"]+)"', page) if part != "/openapi.json"]
    assert len(parts) == 3
    assert all(part.startswith("/docs/static/") and client.get(part).status_code == 200 for part in parts)
    assert "securitySchemes" in client.get("/openapi.json").text
    assert KEY not in client.get("/openapi.json").text
    assert client.get("/docs/nowhere").status_code == 401
