"""MCP answers what REST answers: a tool for every operation, with the same arguments, results and problems."""

import asyncio
from typing import Any

import pytest
from mcp import Client
from mcp.types import CallToolResult
from pydantic_core import from_json
from starlette.testclient import TestClient

from ragtune.canonical.service import RagService
from ragtune.services.limits import Runner, ServerLimits
from ragtune.services.mcp import create_server
from ragtune.services.operations import OPERATIONS

MODES = ("auto", "legacy")
CANDIDATE = {"doc_id": "d", "chunk_index": 0, "content": "Tea. Time.", "score": 0.5}
DOCUMENT = {"doc_id": "d", "content": "Tea. Time."}
CALLS: list[tuple[str, str, str, dict[str, Any]]] = [
    ("normalize", "POST", "/v1/normalize", {"content": "a\r\nb"}),
    ("chunk", "POST", "/v1/chunk", {"content": "One. Two.", "policy": {"max_tokens": 2}}),
    ("embed", "POST", "/v1/embed", {"texts": ["tea", ""]}),
    (
        "index",
        "POST",
        "/v1/index",
        {"collection": "tea", "chunks": [{"doc_id": "i", "chunk_index": 0, "content": "x"}]},
    ),
    ("ingest", "POST", "/v1/ingest", {"collection": "tea", "documents": [DOCUMENT]}),
    ("retrieve", "POST", "/v1/retrieve", {"collection": "tea", "query": "green tea", "plan": {"mode": "hybrid"}}),
    ("fuse", "POST", "/v1/fuse", {"candidate_sets": {"a": [CANDIDATE], "b": [CANDIDATE]}}),
    ("rerank", "POST", "/v1/rerank", {"query": "q", "candidates": [CANDIDATE], "model": "length"}),
    ("compress", "POST", "/v1/compress", {"query": "time", "candidates": [CANDIDATE], "policy": {"window": 0}}),
    ("package", "POST", "/v1/package", {"query": "q", "candidates": [CANDIDATE]}),
    ("list_collections", "GET", "/v1/collections", {}),
    ("create_collection", "POST", "/v1/collections", {"collection": "tea"}),
    ("get_collection", "GET", "/v1/collections/tea", {"collection": "tea"}),
    ("delete_collection", "DELETE", "/v1/collections/none", {"collection": "none"}),
    ("list_documents", "GET", "/v1/collections/tea/documents", {"collection": "tea", "limit": 2}),
    ("delete_documents", "DELETE", "/v1/collections/tea/documents", {"collection": "tea", "doc_ids": ["none"]}),
    ("get_chunks", "GET", "/v1/collections/tea/chunks", {"collection": "tea", "doc_id": "green"}),
    # refused
    ("retrieve", "POST", "/v1/retrieve", {"collection": "none", "query": "q"}),
    ("retrieve", "POST", "/v1/retrieve", {"collection": "tea"}),
    ("list_collections", "GET", "/v1/collections", {"more": 1}),
]


def server_of(service: RagService) -> Any:
    return create_server(Runner(service, ServerLimits()))


def call(service: RagService, name: str, arguments: dict[str, Any], mode: str = "auto") -> CallToolResult:
    async def run() -> CallToolResult:
        async with Client(server_of(service), mode=mode) as client:
            await client.list_tools()  # so that the client checks results against the output schemas
            return await client.call_tool(name, arguments)

    return asyncio.run(run())


def ask(client: TestClient, method: str, path: str, arguments: dict[str, Any]) -> Any:
    if method == "POST":
        return client.post(path, json=arguments).json()
    fields = {name: value for name, value in arguments.items() if name != "collection"}
    return client.request(method, path, params=fields).json()


@pytest.mark.parametrize(("name", "method", "path", "arguments"), CALLS)
def test_a_tool_answers_what_the_endpoint_answers(
    service: RagService, client: TestClient, name: str, method: str, path: str, arguments: dict[str, Any]
) -> None:
    ask(client, method, path, arguments)  # what writes has then been written for both
    expected = ask(client, method, path, arguments)
    for mode in MODES:
        result = call(service, name, arguments, mode)
        assert result.is_error == ("status" in expected)
        assert result.structured_content == (None if result.is_error else expected)
        assert from_json(result.content[0].text) == expected


def test_every_operation_is_a_tool_that_says_what_it_takes_and_does(service: RagService) -> None:
    async def run() -> list[Any]:
        async with Client(server_of(service)) as client:
            return (await client.list_tools()).tools

    tools = {tool.name: tool for tool in asyncio.run(run())}
    assert set(tools) == {operation.name for operation in OPERATIONS} == {name for name, *_ in CALLS}
    assert all(tool.description and tool.input_schema["type"] == "object" for tool in tools.values())
    assert all(tool.output_schema["type"] == "object" for tool in tools.values())
    deleting = {name for name, tool in tools.items() if tool.annotations.destructive_hint}
    reading = {name for name, tool in tools.items() if tool.annotations.read_only_hint}
    assert deleting == {"delete_collection", "delete_documents"}
    assert set(tools) - reading - deleting == {"index", "ingest", "create_collection"}


@pytest.mark.parametrize("value", ["\ud800", float("nan")])
def test_what_is_no_json_is_refused(service: RagService, value: object) -> None:
    # Not by way of the client, which sends no NaN.
    result = asyncio.run(server_of(service).call_tool("normalize", {"content": value}))
    assert result.is_error
    assert from_json(result.content[0].text)["type"] == "urn:ragtune:problem:malformed-request"
