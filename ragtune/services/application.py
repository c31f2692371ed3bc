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
    security: Security,
    limits: ServerLimits,
    *,
    ranker: RerankServer | None = None,
    with_mcp: bool = True,
) -> FastAPI:
    """REST and MCP on one service, with the same threads, limits and protection.

    Args:
        service: the service that both make available; the application does not close it.
        security: what a request must show to be served.
        limits: what each request is given.
        ranker: what the rerank API works on, if the server has a model for it; the application does not close it.
        with_mcp: whether MCP is served at ``/mcp``.

    Raises:
        MissingExtraError: without the extra ``services``.
    """
    runner = Runner(service, limits)
    server = mcp.create_server(service, runner=runner) if with_mcp else None

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        try:
            if server is None:
                yield
            else:
                async with server.session_manager.run():
                    yield
        finally:
            runner.close()

    routes = [] if server is None else mcp.http_routes(server, limits)
    return rest.create_app(
        service,
        security=security,
        limits=limits,
        runner=runner,
        ranker=ranker,
        routes=routes,
        lifespan=lifespan,
    )
