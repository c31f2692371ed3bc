"""REST answers what the library answers, and every failure as problem details."""

import asyncio
import json
import os
import threading
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from patience import HANG_S
from schemathesis.specs.openapi.checks import (
    ignored_auth,
    positive_data_acceptance,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.testclient import TestClient

from ragtune.canonical import Candidate, ChunkPolicy, RetrievalPlan, chunk
from ragtune.canonical.service import RagService
from ragtune.canonical.store.memory import MemoryDatabase
from ragtune.core.errors import LLMError, MissingExtraError, StoreError
from ragtune.embedders.hashing import HashingEmbedder
from ragtune.services.errors import KINDS
from ragtune.services.limits import Runner, ServerLimits
from ragtune.services.operations import OPERATIONS
from ragtune.services.rest import create_app
from ragtune.services.security import Security

Clients = Callable[..., TestClient]
JSON = {"Content-Type": "application/json"}


def post(client: TestClient, name: str, **body: Any) -> Any:
    response = client.post(f"/v1/{name}", json=body)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/json"
    return response.json()


def refused(response: Any, status: int, kind: str) -> dict[str, Any]:
    """The problem, which must be a well-formed one."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = response.json()
    assert problem["status"] == status
    assert problem["type"] == f"urn:ragtune:problem:{kind}"
    assert problem["title"] == KINDS[kind].title
    assert problem["detail"]
    return problem


def dumped(values: Any) -> list[dict[str, Any]]:
    return [value.model_dump(mode="json") for value in values]


@pytest.fixture
def candidates(service: RagService, client: TestClient) -> list[Candidate]:
    return service.retrieve("tea", "tea", RetrievalPlan(mode="lexical"))


def test_reranking_is_by_the_servers_own_models(client: TestClient, candidates: list[Candidate]) -> None:
    sent = {"query": "tea", "candidates": dumped(candidates)}
    assert post(client, "rerank", **sent) == {"candidates": sent["candidates"]}
    answer = post(client, "rerank", **sent, model="length")["candidates"]
    assert [one["doc_id"] for one in answer] == ["mate", "black", "green"]
    problem = refused(client.post("/v1/rerank", json={**sent, "model": "gpt"}), 422, "invalid-request")
    assert "length" in problem["detail"]


def test_documents_go_in_and_out(client: TestClient, service: RagService) -> None:
    made = chunk("One. Two.", ChunkPolicy(max_tokens=2), doc_id="n", metadata={"by": "Ann"})
    made[1] = made[1].model_copy(update={"metadata": {"by": "Ann", "page": 2}})
    answer = post(client, "index", collection="tea", chunks=dumped(made))
    assert answer == {
        "collection": "tea",
        **{"documents": 1, "inserted": 2, "updated": 0, "unchanged": 0, "deleted": 0},
        "keys": [["n", 0], ["n", 1]],
    }
    for doc_id, chunks, metadata in (("n", dumped(made), {"by": "Ann"}), ("?", [], {})):
        answer = client.get("/v1/collections/tea/chunks", params={"doc_id": doc_id}).json()
        assert answer == {"chunks": chunks, "metadata": metadata}
    info = client.get("/v1/collections/tea").json()
    assert (info["name"], info["embed_dims"], info["documents"], info["chunks"]) == ("tea", 32, 4, 5)
    page = client.get("/v1/collections/tea/documents", params={"after": "black", "limit": 2}).json()
    assert page == {"doc_ids": ["green", "mate"]}
    gone = client.delete("/v1/collections/tea/documents", params={"doc_ids": ["n", "green", "?"]}).json()
    assert gone == {"deleted": 2}
    assert client.get("/v1/collections/tea/documents").json() == {"doc_ids": ["black", "mate"]}


def test_collections_are_made_listed_and_dropped(client: TestClient) -> None:
    made = post(client, "collections", collection="new", embedder="large")
    assert post(client, "collections", collection="new", embedder="large") == made
    assert [one["name"] for one in client.get("/v1/collections").json()["collections"]] == ["new", "tea"]
    refused(client.post("/v1/collections", json={"collection": "new"}), 409, "collection-mismatch")
    post(client, "ingest", collection="new", documents=[{"doc_id": "d", "content": "tea"}])
    assert client.get("/v1/collections/new").json()["embed_dims"] == 64
    assert client.delete("/v1/collections/new").json() == {"dropped": True}
    assert client.delete("/v1/collections/new").json() == {"dropped": False}
    refused(client.get("/v1/collections/new"), 404, "unknown-collection")


def test_a_collection_of_a_model_that_the_server_lacks_is_refused_naming_both(make_client: Clients) -> None:
    database = MemoryDatabase()
    database.open("old", HashingEmbedder(dims=7), create=True)
    client = make_client(service=RagService(database, {"now": HashingEmbedder(dims=9)}))
    problem = refused(client.get("/v1/collections/old"), 409, "collection-mismatch")
    assert "7 dims" in problem["detail"]
    assert "9 dims" in problem["detail"]


@pytest.mark.parametrize(
    ("name", "body", "pointer"),
    [
        ("retrieve", {"collection": "tea"}, "/query"),
        ("retrieve", {"collection": "tea", "query": "q", "plan": {"k": "12"}}, "/plan/k"),
        ("retrieve", {"collection": "tea", "query": "q", "a/b": 1}, "/a~1b"),
        ("retrieve", {"collection": "no name", "query": "q"}, "/collection"),
        ("retrieve", [], ""),
        ("normalize", {"content": [{"text": "a"}, {"text": 7}]}, "/content/1/text"),
        ("normalize", {"content": 7}, "/content"),
        ("fuse", {"candidate_sets": {"a/~": [7]}}, "/candidate_sets/a~1~0/0"),
    ],
)
def test_what_is_not_valid_is_named_by_its_place(client: TestClient, name: str, body: Any, pointer: str) -> None:
    problem = refused(client.post(f"/v1/{name}", json=body), 422, "invalid-request")
    assert problem["errors"][0]["pointer"] == pointer
    assert problem["detail"].startswith(f"{pointer or '/'}: ")


CANDIDATE = b'{"query": "q", "candidates": [{"doc_id": "d", "chunk_index": 0, "content": "", "score": 0, '


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("retrieve", b"", 400),
        ("retrieve", b'{"collection": "tea", "query": "q", "plan": {"filters": {"metadata": {"x": NaN}}}}', 400),
        ("retrieve", b'{"collection": "tea", "query": "\\ud800"}', 400),
        ("normalize", b'{"content":' + b"[" * 100_000, 400),
        ("retrieve", b'{"collection": "tea", "query": "a\\u0000b"}', 422),
        ("embed", b'{"texts": ["x"], "embedder": "other"}', 422),
        ("rerank", CANDIDATE + b'"metadata": {"x": 1e999}}]}', 422),  # what JSON cannot give back
    ],
)
def test_what_is_no_json_or_no_valid_request_is_refused(
    client: TestClient, path: str, body: bytes, status: int
) -> None:
    kind = {400: "malformed-request", 422: "invalid-request"}[status]
    refused(client.post(f"/v1/{path}", content=body, headers=JSON), status, kind)


@pytest.mark.parametrize("headers", [{"Content-Type": "application/jsonp"}, {**JSON, "Content-Encoding": "gzip"}])
def test_only_plain_json_is_taken(client: TestClient, headers: dict[str, str]) -> None:
    response = client.post("/v1/normalize", content=b'{"content": ""}', headers=headers)
    refused(response, 415, "unsupported-media-type")


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("documents", {"limit": "0"}),
        ("documents", {"limit": ["1", "2"]}),
        ("documents", {"collection": "other"}),
        ("chunks", {}),
    ],
)
def test_parameters_are_checked_as_bodies_are(client: TestClient, path: str, query: dict[str, Any]) -> None:
    refused(client.get(f"/v1/collections/tea/{path}", params=query), 422, "invalid-request")


def test_other_paths_and_methods_are_refused_saying_which_there_are(client: TestClient) -> None:
    refused(client.get("/v2/retrieve"), 404, "not-found")
    assert client.get("/v1/retrieve").headers["allow"] == "POST"
    response = client.put("/v1/collections/tea")
    refused(response, 405, "method-not-allowed")
    assert response.headers["allow"] == "DELETE, GET"


def test_limits_are_named(make_client: Clients) -> None:
    client = make_client(service=RagService(MemoryDatabase(), {"e": HashingEmbedder(dims=8)}, max_batch=2))
    post(client, "collections", collection="c")
    candidate = {"doc_id": "d", "chunk_index": 0, "content": "", "score": 0.0}
    for name, body in (
        ("retrieve", {"collection": "c", "query": "q", "plan": {"k": 1001}}),
        ("retrieve", {"collection": "c", "query": "q", "plan": {"k": 5, "candidate_pool": 1001}}),
        ("embed", {"texts": ["a", "b", "c"]}),
        ("fuse", {"candidate_sets": [[candidate] * 3]}),
        ("rerank", {"query": "q", "candidates": [candidate] * 3}),
    ):
        problem = refused(client.post(f"/v1/{name}", json=body), 422, "limit-exceeded")
        assert "allowed are at most" in problem["detail"]
    refused(client.get("/v1/collections/c/documents", params={"limit": 3}), 422, "limit-exceeded")


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (StoreError("gone"), 503, "store"),
        (LLMError("refused"), 502, "model-service"),
        (MissingExtraError("dense vectors", "models"), 501, "missing-extra"),
        (RuntimeError("secret"), 500, "internal-error"),
    ],
)
def test_failures_have_their_status_and_unexpected_ones_tell_nothing(
    service: RagService, client: TestClient, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int, kind: str
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(service.database, "collections", fail)
    response = client.get("/v1/collections")
    problem = refused(response, status, kind)
    assert (str(error) in problem["detail"]) == (status != 500)
    assert response.headers.get("retry-after") == ("1" if status == 503 else None)


def test_health_is_of_the_server_and_readiness_of_the_database(
    service: RagService, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert client.get("/healthz").json() == client.get("/readyz").json() == {"status": "ok"}

    def fail() -> None:
        raise StoreError("no connection")

    monkeypatch.setattr(service.database, "check", fail)
    assert client.get("/healthz").status_code == 200
    refused(client.get("/readyz"), 503, "store")


def test_requests_beyond_those_at_once_are_sent_away(
    service: RagService, make_client: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, started = threading.Event(), threading.Event()

    def hang() -> list[Any]:
        started.set()
        go_on.wait(HANG_S)
        return []

    monkeypatch.setattr(service.database, "collections", hang)
    with make_client(limits=ServerLimits(in_flight=1)) as client:  # one event loop for all requests
        first = threading.Thread(target=client.get, args=("/v1/collections",))
        first.start()
        assert started.wait(HANG_S)
        response = client.post("/v1/normalize", json={"content": "x"})
        refused(response, 503, "saturated")
        assert response.headers["retry-after"] == "1"
        assert client.get("/healthz").status_code == 200
        go_on.set()
        first.join()
        post(client, "normalize", content="x")


def test_openapi_describes_every_operation(client: TestClient) -> None:
    description = client.get("/openapi.json").json()
    found = {one["operationId"] for path in description["paths"].values() for one in path.values()}
    pages = {"about", "health", "healthz", "readyz", "v1_models", "info"}
    assert found == {operation.name for operation in OPERATIONS} | {"rerank_v2", "rerank_jina", "score"} | pages


def unknown(count: int) -> bytes:
    return json.dumps({"content": "x", **{f"k{i}": 0 for i in range(count)}}).encode()


def test_only_so_many_errors_are_looked_at_and_a_list_is_checked_up_to_its_first_one(client: TestClient) -> None:
    few = client.post("/v1/normalize", content=unknown(30), headers=JSON).json()
    assert (few["detail"], len(few["errors"])) == ("/k0: Extra inputs are not permitted, and 29 more", 20)
    many = client.post("/v1/normalize", content=unknown(20_000), headers=JSON).json()
    assert many["detail"].startswith("20000 ")
    assert "errors" not in many
    flood = client.post("/v1/rerank", json={"query": "tea", "candidates": [{}] * 100_000}).json()
    assert {error["pointer"].split("/")[2] for error in flood["errors"]} == {"0"}


def test_whoever_watches_over_the_server_waits_for_none_of_the_event_loops_threads() -> None:
    is_over = threading.Event()

    async def check(runner: Runner) -> None:
        threads = 2 * (os.cpu_count() or 1) + 40  # more than the event loop's own pool has
        flood = [asyncio.create_task(asyncio.to_thread(is_over.wait, HANG_S)) for _ in range(threads)]
        await asyncio.sleep(0)
        try:
            await runner.check()
        finally:
            is_over.set()
            await asyncio.gather(*flood)

    asked: list[bool] = []
    runner = Runner(cast(RagService, SimpleNamespace(check=lambda: asked.append(is_over.is_set()))), ServerLimits())
    asyncio.run(check(runner))
    runner.close()
    assert asked == [False]


HOST = {"Host": "localhost"}


def load(security: Security) -> schemathesis.BaseSchema:
    service = RagService(MemoryDatabase(), {"hashing": HashingEmbedder(dims=16)})
    service.create_collection("c")
    limits = ServerLimits()
    # Schemathesis opens the lifespan of the application anew for every request, which MCP does not allow.
    app = create_app(Runner(service, limits), security, limits, None, [], lambda _: nullcontext())
    return schemathesis.openapi.from_asgi("/openapi.json", app, headers={**HOST, "X-API-Key": security.api_key or ""})


def examples(count: int) -> settings:
    checks = list(HealthCheck)
    return settings(max_examples=count, deadline=None, derandomize=True, database=None, suppress_health_check=checks)


@pytest.fixture
def open_api(request: pytest.FixtureRequest) -> schemathesis.BaseSchema:
    request.node._nodeid = request.node.nodeid  # Schemathesis changes it for every operation; pytest 9 has dropped it
    return load(Security())


@pytest.fixture
def closed_api(request: pytest.FixtureRequest) -> schemathesis.BaseSchema:
    request.node._nodeid = request.node.nodeid
    schema = load(Security(api_key="a-key-that-is-not-guessed"))
    schema.config.phases.coverage.enabled = False  # a guessed key is refused before the body is looked at
    return schema


@schemathesis.pytest.from_fixture("open_api").parametrize()
@examples(5)
def test_every_answer_is_one_that_openapi_describes(case: schemathesis.Case) -> None:
    # A schema cannot say all that a request must be (k <= candidate_pool, no NUL): valid data may be refused.
    case.call_and_validate(headers=HOST, excluded_checks=[positive_data_acceptance])


@schemathesis.pytest.from_fixture("closed_api").include(path_regex="^/v1/").parametrize()
@examples(3)
def test_no_operation_is_open_to_a_guessed_key(case: schemathesis.Case) -> None:
    response = case.call(headers=HOST)
    assert response.status_code == 401
    case.validate_response(response, checks=[ignored_auth, status_code_conformance, response_schema_conformance])
