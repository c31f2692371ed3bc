"""REST and MCP behind one port."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from ragtune.canonical.service import RagService
from ragtune.services import mcp, rest
from ragtune.services.limits import Runner, ServerLimits
from ragtune.services.rerank import RerankServer
from ragtune.services.security import Security

if TYPE_CHECKING:
    from fastapi import FastAPI


def create_application(
    service: RagService,
    security: Security | None = None,
    limits: ServerLimits | None = None,
    ranker: RerankServer | None = None,
) -> FastAPI:
    """REST, MCP at ``/mcp`` and the rerank API behind one protection; it closes neither the service nor the ranker."""
    limits = limits or ServerLimits()
    runner = Runner(service, limits)
    server = mcp.create_server(runner, ranker)

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        try:
            async with server.session_manager.run():
                yield
        finally:
            runner.close()

    routes = mcp.http_routes(server, limits)
    return rest.create_app(runner, security or Security(), limits, ranker, routes, lifespan)
