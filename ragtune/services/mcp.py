"""MCP: a tool for every operation, over stdio and streamable HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter
from pydantic_core import from_json, to_json

from ragtune import __version__
from ragtune.canonical.permit import Permit
from ragtune.core.errors import MissingExtraError
from ragtune.services.dialects.cohere import V1
from ragtune.services.errors import problem_of
from ragtune.services.limits import Runner, ServerLimits
from ragtune.services.operations import OPERATIONS, MalformedRequestError, Operation

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.tools import Tool
    from mcp.types import CallToolResult
    from starlette.routing import BaseRoute
    from starlette.types import Receive, Scope, Send

    from ragtune.services.rerank import RerankServer

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
    try:
        from mcp.server.mcpserver import MCPServer
    except ImportError as error:
        raise MissingExtraError("the MCP adapter", "services") from error
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
    from mcp.server.transport_security import TransportSecuritySettings
    from starlette.routing import Route

    server.streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=limits.body_bytes,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    # A GET would hold a connection for messages that never come.
    return [Route(PATH, _Endpoint(server), methods=["POST"], include_in_schema=False)]


class _Endpoint:
    def __init__(self, server: MCPServer) -> None:
        self._manager = server.session_manager

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._manager.handle_request(scope, receive, send)


def _tool(operation: Operation[Any], runner: Runner, ranker: RerankServer | None) -> Tool:
    from mcp.server.mcpserver.tools import Tool
    from mcp.server.mcpserver.utilities.func_metadata import ArgModelBase, FuncMetadata
    from mcp.types import ToolAnnotations

    class Arguments(FuncMetadata):
        """Hands the arguments on as they are: the operation checks them."""

        def validate_arguments(self, arguments_to_validate: dict[str, Any]) -> dict[str, Any]:
            return {"arguments": arguments_to_validate}

    description, parameters = operation.summary, operation.request.model_json_schema()
    output = operation.adapter.json_schema(mode="serialization")
    if ranker is not None:
        description, parameters, output = _with_documents(operation, parameters)
    return Tool(
        fn=_call(operation, runner, ranker, _structured(parameters)),
        name=operation.name,
        title=None,
        context_kwarg=None,
        description=description,
        parameters=parameters,
        fn_metadata=Arguments(arg_model=ArgModelBase, output_schema=output),
        is_async=True,
        annotations=ToolAnnotations(
            read_only_hint=operation.effect == "reads",
            destructive_hint=operation.effect == "deletes",
            idempotent_hint=True,
            open_world_hint=False,
        ),
    )


def _with_documents(block: Operation[Any], parameters: dict[str, Any]) -> tuple[str, dict[str, Any], dict[str, Any]]:
    own, output = RERANK.request.model_json_schema(), TypeAdapter(RERANK.response | block.response)
    joined = {name: {**parameters.get(name, {}), **own.get(name, {})} for name in ("$defs", "properties")}
    return (
        f"{RERANK.summary} Or with candidates: {block.summary}",
        {"type": "object", "title": own["title"], "required": ["query"], **joined},
        {"type": "object", **output.json_schema(mode="serialization")},
    )


def _structured(parameters: dict[str, Any]) -> set[str]:
    """Arguments that are never text. Some clients send them as JSON in a string."""
    return {
        name
        for name, schema in parameters["properties"].items()
        if not any(one.get("type") == "string" for one in (schema, *schema.get("anyOf", ()), *schema.get("oneOf", ())))
    }


def _call(
    operation: Operation[Any], runner: Runner, ranker: RerankServer | None, structured: set[str]
) -> Callable[..., Awaitable[CallToolResult]]:
    from mcp.types import CallToolResult, TextContent

    async def call(arguments: dict[str, Any]) -> CallToolResult:
        try:
            data = _encode({name: _read(value) if name in structured else value for name, value in arguments.items()})
            if ranker is None or "candidates" in arguments:
                body = await runner.run(operation, data)
            else:
                body = await runner.rerank(lambda _: (RERANK, ranker), data, asyncio.Event().wait, Permit())
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
        raise MalformedRequestError(f"Invalid JSON: {error}") from None
