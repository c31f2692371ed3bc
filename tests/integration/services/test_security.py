"""Who may ask, from where, and how much may be sent: the same for REST and MCP, which lie behind one protection."""

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

Servers = Callable[..., TestClient]


@pytest.fixture
def make_server(service: RagService) -> Iterator[Servers]:
    """``make_server(security, limits)``: both adapters, running."""
    running = []

    def make(security: Security, limits: ServerLimits | None = None) -> TestClient:
        app = create_application(service, security, limits)
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


def test_a_server_with_a_key_answers_nobody_without_it_but_health_and_the_description(make_server: Servers) -> None:
    assert KEY not in repr(Security(api_key=KEY))
    client = make_server(Security(api_key=KEY))
    for right in ({"Authorization": f"Bearer {KEY}"}, {"Authorization": f"bearer {KEY}"}, {"X_API_Key": KEY}):
        assert statuses(client, **right) == [200, 200]
    wrong_keys: list[dict[str, Any]] = [{"X_API_Key": key} for key in ("", KEY[:-1], "ключ".encode())]
    for wrong in ({}, *wrong_keys, {"Authorization": KEY}, {"Authorization": f"Basic {KEY}"}):
        assert statuses(client, **wrong) == [401, 401]
    assert client.get("/v1/collections").headers["www-authenticate"] == "Bearer"
    assert client.get("/nowhere").status_code == client.get("/docs/nowhere").status_code == 401
    assert [client.get(path).status_code for path in ("/healthz", "/readyz")] == [200, 200]
    assert client.get("/healthz/").status_code != 200
    page = client.get("/docs").text
    parts = [part for part in re.findall(r'(?:href|src)="([^"]+)"', page) if part != "/openapi.json"]
    assert len(parts) == 3
    assert all(part.startswith("/docs/static/") and client.get(part).status_code == 200 for part in parts)
    assert "securitySchemes" in client.get("/openapi.json").text
    assert KEY not in client.get("/openapi.json").text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        *[({"Host": host}, 421) for host in ("localhost.evil.example", "127.0.0.1.evil.example:80", "[::2]")],
        *[({"Host": host}, 200) for host in ("LOCALHOST:8080", "127.0.0.1:1", "[::1]:8080")],
        *[({"Origin": page}, 403) for page in ("https://evil.example", "null", "http://localhost.evil.example")],
        *[({"Origin": page}, 403) for page in ("file://localhost", "http://[", "localhost")],
        *[({"Origin": page}, 200) for page in ("http://localhost:3000", "http://127.0.0.1")],
    ],
)
def test_pages_from_elsewhere_and_names_made_to_resolve_to_this_machine_are_refused(
    make_server: Servers, headers: dict[str, str], status: int
) -> None:
    assert statuses(make_server(Security()), **headers) == [status, status]


def test_a_public_server_knows_its_own_pages_only(make_server: Servers) -> None:
    client = make_server(Security(api_key=KEY, allowed_hosts=None))
    key = {"X_API_Key": KEY, "Host": "rag.example"}
    assert statuses(client, **key) == [200, 200]
    assert statuses(client, **key, Origin="https://rag.example") == [200, 200]
    assert statuses(client, **key, Origin="http://localhost") == [403, 403]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "rag.example", "127.0.0.1.evil.example"])
def test_only_loopback_is_served_without_a_key(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    monkeypatch.delenv("RAGTUNE_API_KEY", raising=False)
    assert not is_loopback(host)
    with pytest.raises(ConfigError, match="RAGTUNE_API_KEY"):
        secure(host)
    for local in ("127.9.9.9", "::1", "localhost"):
        assert secure(local).api_key is None
        assert (secure(local, frozenset({"box"})).allowed_hosts or set()) >= {"box", "localhost", local}
    monkeypatch.setenv("RAGTUNE_API_KEY", KEY)
    assert secure(host).api_key == secure("localhost").api_key == KEY


@pytest.mark.parametrize("key", ["short", "with a space in the middle", "schlüssel-schlüssel", "tab\tand sixteen more"])
def test_a_key_that_cannot_be_a_good_one_is_refused_without_quoting_it(
    monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("RAGTUNE_API_KEY", key)
    with pytest.raises(ConfigError) as caught:
        secure("127.0.0.1")
    assert key not in str(caught.value)


def answered(client: TestClient, path: str, receive: Callable[[], Any]) -> int | None:
    """The status that is sent to a client whose messages ``receive`` gives."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": path, "headers": headers, "query_string": b"", "raw_path": b""}
    scope |= {"http_version": "1.1", "scheme": "http", "client": None, "server": None}
    asyncio.run(client.app(scope, receive, send))
    return sent[0]["status"] if sent else None


def test_bodies_beyond_the_limit_are_refused_whether_declared_or_not(make_server: Servers) -> None:
    client = make_server(Security(), ServerLimits(body_bytes=1000))
    for path in ("/v1/normalize", "/mcp"):
        assert client.post(path, json={"content": "x" * 900}, headers=JSON).status_code in (200, 400)
        declared = client.post(path, content=b" " * 1001, headers=JSON)
        assert (declared.status_code, declared.headers["connection"]) == (413, "close")
        read: list[int] = []

        async def receive(read: list[int] = read) -> dict[str, Any]:
            read.append(1)
            return {"type": "http.request", "body": b"x" * 100, "more_body": True}

        assert answered(client, path, receive) == 413
        assert len(read) == 11


def test_a_request_that_never_ends_is_given_up_and_a_client_that_leaves_gets_no_answer(make_server: Servers) -> None:
    client = make_server(Security(), ServerLimits(timeout_s=0.2))

    async def trickle() -> dict[str, Any]:
        await asyncio.sleep(0.05)
        return {"type": "http.request", "body": b"x", "more_body": True}

    async def leave() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    assert answered(client, "/v1/normalize", trickle) == 408
    assert answered(client, "/v1/normalize", leave) is None
