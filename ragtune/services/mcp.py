"""MCP: a tool for every operation, over stdio and streamable HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any

from pydantic_core import from_json, to_json

from ragtune import __version__
from ragtune.canonical.permit import Permit
from ragtune.core.errors import MissingExtraError
from ragtune.services.dialects.table import V1
from ragtune.services.errors import AdapterError, problem_of
from ragtune.services.limits import Runner, ServerLimits
from ragtune.services.operations import OPERATIONS, Operation
from ragtune.services.rerank import RerankServer

try:
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.tools import Tool
    from mcp.server.mcpserver.utilities.func_metadata import ArgModelBase, FuncMetadata
    from mcp.server.streamable_http_manager import StreamableHTTPASGIApp
    from mcp.server.transport_security import TransportSecuritySettings
    from mcp.types import CallToolResult, TextContent, ToolAnnotations
    from starlette.routing import BaseRoute, Route
except ImportError as error:
    raise MissingExtraError("the server", "services") from error

PATH = "/mcp"
RERANK = V1.operation
_INSTRUCTIONS = (
    "Retrieval over collections of documents. Make a collection, ingest documents, then retrieve candidates for a "
    "query; fuse, rerank, compress and package work on candidates. The text of a failed call is a problem in JSON "
    "(RFC 9457)."
)


def create_server(runner: Runner, ranker: RerankServer | None = None) -> MCPServer:
    """The MCP adapter: arguments, content and problems (as text) are those of the REST endpoint of the same name.

    With a ``ranker``, the tool ``rerank`` takes ``documents`` and a budget as well, as /v1/rerank does.
    """
    return MCPServer(
        "ragtune",
        title="RAGtune",
        instructions=_INSTRUCTIONS,
        version=__version__,
        tools=[_tool(operation, runner, ranker if operation.name == "rerank" else None) for operation in OPERATIONS],
        subscriptions=False,
        log_level="WARNING",
    )


def http_routes(server: MCPServer, limits: ServerLimits) -> list[BaseRoute]:
    """Streamable HTTP at ``/mcp`` without sessions, which works while ``server.session_manager.run()`` is open."""
    server.streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=limits.body_bytes,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    # A GET would hold a connection for messages that never come.
    return [Route(PATH, StreamableHTTPASGIApp(server.session_manager), methods=["POST"], include_in_schema=False)]


class _Arguments(FuncMetadata):
    """Hands the arguments on as they are: the operation checks them."""

    def validate_arguments(self, arguments_to_validate: dict[str, Any]) -> dict[str, Any]:
        return {"arguments": arguments_to_validate}


def _tool(operation: Operation[Any], runner: Runner, ranker: RerankServer | None) -> Tool:
    description, (parameters, output) = operation.summary, _schemas(operation)
    if ranker is not None:
        own, description = _schemas(RERANK)[0], f"{RERANK.summary} Or with candidates: {description}"
        joined = {name: {**parameters.get(name, {}), **own.get(name, {})} for name in ("$defs", "properties")}
        parameters = {"type": "object", "title": own["title"], "required": ["query"], **joined}
        output = {"type": "object"}
    return Tool(
        fn=_call(operation, runner, ranker, _never_text(parameters["properties"])),
        name=operation.name,
        title=None,
        context_kwarg=None,
        description=description,
        parameters=parameters,
        fn_metadata=_Arguments(arg_model=ArgModelBase, output_schema=output),
        is_async=True,
        annotations=ToolAnnotations(
            read_only_hint=operation.effect == "reads",
            destructive_hint=operation.effect == "deletes",
            idempotent_hint=True,
            open_world_hint=False,
        ),
    )


@cache
def _schemas(operation: Operation[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """JSON schemas of a request and of its answer."""
    return operation.request.model_json_schema(), operation.adapter.json_schema(mode="serialization")


def _never_text(properties: dict[str, Any]) -> set[str]:
    """Arguments that some clients send as JSON in a string."""
    kinds = {name: (one, *one.get("anyOf", ()), *one.get("oneOf", ())) for name, one in properties.items()}
    return {name for name, allowed in kinds.items() if all(one.get("type") != "string" for one in allowed)}


def _call(
    operation: Operation[Any], runner: Runner, ranker: RerankServer | None, never_text: set[str]
) -> Callable[..., Awaitable[CallToolResult]]:
    async def call(arguments: dict[str, Any]) -> CallToolResult:
        try:
            data = _encode({name: _read(value) if name in never_text else value for name, value in arguments.items()})
            if ranker is None or "candidates" in arguments:
                body = await runner.run(operation, data)
            else:
                body = await runner.rerank(
                    lambda: RERANK.answer(ranker, RERANK.decode(data)), asyncio.Event().wait, Permit()
                )
        except Exception as error:
            # As text only: clients check structured content against the tool's output schema, and drop what differs.
            problem = problem_of(error).to_json().decode()
            return CallToolResult(content=[TextContent(type="text", text=problem)], is_error=True)
        return CallToolResult(
            content=[TextContent(type="text", text=body.decode())], structured_content=from_json(body)
        )

    return call


def _read(value: Any) -> Any:
    try:
        return from_json(value, allow_inf_nan=False) if isinstance(value, str) else value
    except ValueError:  # the operation says what is allowed
        return value


def _encode(arguments: dict[str, Any]) -> bytes:
    try:
        return to_json(arguments, inf_nan_mode="constants")  # which the operation refuses
    except ValueError as error:  # a lone surrogate
        raise AdapterError("malformed-request", f"Invalid JSON: {error}") from None
