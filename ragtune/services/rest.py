"""REST: an endpoint for every operation, problem details for every failure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ragtune.canonical.service import RagService
from ragtune.core.errors import MissingExtraError, RagtuneError
from ragtune.services.errors import AdapterError, headers_of, problem_of
from ragtune.services.limits import Runner, ServerLimits
from ragtune.services.metrics import PATH, Counted, Metrics
from ragtune.services.openapi import Schema, Schemas
from ragtune.services.operations import OPERATIONS, Operation
from ragtune.services.protection import STATIC_PATH, Protection
from ragtune.services.rerank import RERANK_OPERATIONS, RerankServer
from ragtune.services.security import Security

if TYPE_CHECKING:
    from fastapi import FastAPI, Request, Response
    from starlette.routing import BaseRoute

_JSON = "application/json"
_TEXT = {"text/plain": {"type": "string"}}
_WHOLE = re.compile("[0-9]{1,9}", re.ASCII)


def create_app(
    service: RagService,
    *,
    security: Security | None = None,
    limits: ServerLimits | None = None,
    runner: Runner | None = None,
    ranker: RerankServer | None = None,
    routes: Sequence[BaseRoute] = (),
    lifespan: Callable[[FastAPI], Any] | None = None,
) -> FastAPI:
    """The REST adapter as an ASGI application.

    Args:
        service: the service that the endpoints work on; the application does not close it.
        security: what a request must show; by default no key, but a loopback Host.
        limits: what each request is given.
        runner: runs the operations; None makes a runner.
        ranker: what the rerank API works on; None has it say that there is no model. The application does not close it.
        routes: further routes, which get the same protection.
        lifespan: context that must be open while the application runs.

    Raises:
        MissingExtraError: without the extra ``services``.
    """
    try:
        from fastapi_offline import FastAPIOffline
    except ImportError as error:
        raise MissingExtraError("the REST adapter", "services") from error
    limits = limits or ServerLimits()
    runner = runner or Runner(service, limits)
    app: FastAPI = FastAPIOffline(
        title="RAGtune",
        summary="The canonical blocks of retrieval-augmented generation.",
        version="1.0.0",
        routes=[*routes],
        redoc_url=None,
        static_url=STATIC_PATH,
        swagger_ui_parameters={"persistAuthorization": True},
        lifespan=lifespan,
    )
    schemas = Schemas()
    at_path = {operation.path: operation for operation in RERANK_OPERATIONS}
    for operation in OPERATIONS:
        if operation.path not in at_path:
            _add(app, _endpoint(operation, runner), schemas, operation)
    blocks = {operation.path: operation for operation in OPERATIONS}
    for operation in RERANK_OPERATIONS:
        block = blocks.get(operation.path)
        _add(app, _rerank_endpoint(operation, block, runner, ranker), schemas, *filter(None, (block, operation)))
    _add_pages(app, runner, None if ranker is None else ranker.metrics, schemas)
    _add_problems(app)
    _describe(app, schemas, security)
    app.add_middleware(Protection, security=security or Security(), limits=limits)
    if ranker is not None:
        app.add_middleware(Counted, metrics=ranker.metrics)
    return app


def _add(app: FastAPI, endpoint: Callable[[Request], Any], schemas: Schemas, *operations: Operation[Any]) -> None:
    """Add an endpoint for the first operation, or for any of several that its path and method are shared by."""
    operation = operations[0]
    describe = schemas.body if operation.method == "POST" else schemas.parameters
    app.add_api_route(
        operation.path,
        endpoint,
        methods=[operation.method],
        operation_id=operation.name,
        name=operation.name,
        summary=" Or: ".join(each.summary for each in operations),
        tags=[_tag(operation)],
        responses=schemas.responses(*operations),
        openapi_extra=describe(*operations),
    )


def _tag(operation: Operation[Any]) -> str:
    if operation in RERANK_OPERATIONS:
        return "rerank API"
    return "collections" if operation.path.startswith("/v1/collections") else "blocks"


def _endpoint(operation: Operation[Any], runner: Runner) -> Callable[[Request], Any]:
    from fastapi import Request, Response

    read = _read_body if operation.method == "POST" else _read_parameters

    async def endpoint(request: Request) -> Response:
        data = await read(operation, request)
        return Response(await runner.run(operation, data), media_type=_JSON)

    # FastAPI reads annotations from the module, which does not import it.
    endpoint.__annotations__ = {"request": Request, "return": Response}
    return endpoint


def _rerank_endpoint(
    operation: Operation[Any], block: Operation[Any] | None, runner: Runner, ranker: RerankServer | None
) -> Callable[[Request], Any]:
    from fastapi import Request, Response

    def choose(data: bytes) -> tuple[Operation[Any], Any]:
        if block is not None and _has_candidates(data):
            return block, runner.service
        return operation, ranker

    async def endpoint(request: Request) -> Response:
        data = await _read_body(operation, request)
        return Response(await runner.rerank(choose, data, request.receive), media_type=_JSON)

    endpoint.__annotations__ = {"request": Request, "return": Response}
    return endpoint


def _has_candidates(data: bytes) -> bool:
    """Whether a request is the block's, not the rerank API's, which has ``documents``."""
    from pydantic_core import from_json

    if b'"candidates"' not in data:
        return False
    try:
        given = from_json(data)
    except ValueError:
        return False
    return isinstance(given, dict) and "candidates" in given


async def _read_body(_: Operation[Any], request: Request) -> bytes:
    given = request.headers.get("content-type", "")
    kind = given.partition(";")[0].strip().lower()
    if kind != _JSON:
        raise AdapterError("unsupported-media-type", f"Content-Type: {given[:100]!r}, allowed is {_JSON}.")
    return await request.body()


async def _read_parameters(operation: Operation[Any], request: Request) -> bytes:
    """The request as the JSON that it would be in a body, so that both are checked alike."""
    from pydantic_core import to_json

    values: dict[str, Any] = dict(request.path_params)
    for name in request.query_params:
        if name in request.path_params:
            raise AdapterError("invalid-request", f"/{name}: stands in the path, allowed is once.")
        given: list[Any] = request.query_params.getlist(name)
        field = operation.request.model_fields.get(name)
        if field is not None and field.annotation is int:
            given = [int(text) if _WHOLE.fullmatch(text) else text for text in given]
        is_list = field is not None and field.annotation == tuple[str, ...]
        values[name] = given if is_list or len(given) > 1 else given[0]
    return to_json(values)


def _add_pages(app: FastAPI, runner: Runner, metrics: Metrics | None, schemas: Schemas) -> None:
    from fastapi.responses import JSONResponse

    async def healthz() -> Any:
        runner.check_threads()
        return JSONResponse({"status": "ok"})

    async def readyz() -> Any:
        await runner.check()
        return JSONResponse({"status": "ok"})

    status: Schema = {"type": "object", "properties": {"status": {"const": "ok"}}, "required": ["status"]}
    for path, endpoint, summary, schema, statuses in (
        ("/healthz", healthz, "Does the server run, and do requests end?", {_JSON: status}, [403, 421, 503]),
        ("/readyz", readyz, "Do requests end, and does the database answer?", {_JSON: status}, [403, 421, 503, 504]),
        (
            PATH,
            None if metrics is None else metrics.page,
            "Reranking's cost and savings, for Prometheus.",
            _TEXT,
            [401, 403, 421],
        ),
    ):
        if endpoint is None:
            continue
        ok: dict[int | str, Schema] = {
            200: {"description": "Yes", "content": {kind: {"schema": each} for kind, each in schema.items()}}
        }
        app.add_api_route(
            path,
            endpoint,
            methods=["GET"],
            operation_id=path[1:],
            summary=summary,
            tags=["health"],
            responses=ok | schemas.problems(statuses),
            openapi_extra={} if path == PATH else {"security": []},
        )


def _add_problems(app: FastAPI) -> None:
    from fastapi import Response
    from starlette.exceptions import HTTPException

    def answer(request: Request, error: Exception, headers: dict[str, str] | None = None) -> Response:
        found = problem_of(error, request.url.path)
        return Response(found.to_json(), found.status, {**headers_of(error, found), **(headers or {})})

    async def on_error(request: Request, error: Exception) -> Response:
        return answer(request, error)

    async def on_http_error(request: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException) and error.status_code == 405:
            allowed = _methods(app, request)
            return answer(request, AdapterError("method-not-allowed", f"Allowed: {allowed}."), {"Allow": allowed})
        return answer(request, AdapterError("not-found", f"{request.url.path[:200]} is no path of this server."))

    app.add_exception_handler(HTTPException, on_http_error)
    # What is answered here; anything else goes on to the server's log as well.
    for kind in (RagtuneError, Exception):
        app.add_exception_handler(kind, on_error)


def _methods(app: FastAPI, request: Request) -> str:
    from starlette.routing import Match, Route

    found: set[str] = set()
    for route in app.router.routes:
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE:
            found |= route.methods or set()
    return ", ".join(sorted(found))


def _describe(app: FastAPI, schemas: Schemas, security: Security | None) -> None:
    """Put the schemas that the operations refer to into the application's OpenAPI."""
    original = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            made = original()
            components = made.setdefault("components", {})
            components["schemas"] = schemas.components
            if security is not None and security.api_key is not None:
                components["securitySchemes"] = {
                    "bearer": {"type": "http", "scheme": "bearer"},
                    "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
                }
                made["security"] = [{"bearer": []}, {"header": []}]
        assert app.openapi_schema is not None  # noqa: S101 -- set above; for the type checker
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
