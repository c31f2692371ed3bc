"""REST: an endpoint for every operation, problem details for every failure."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse
from fastapi_offline import FastAPIOffline
from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaMode
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match, Route

from ragtune import __version__
from ragtune.canonical.permit import Permit
from ragtune.core.errors import RagtuneError
from ragtune.services import status
from ragtune.services.dialects.table import BY_PATH, DIALECTS, dialect_of, fields_of, problem_at
from ragtune.services.errors import MEDIA_TYPE, AdapterError, Problem, headers_of
from ragtune.services.limits import Runner, ServerLimits
from ragtune.services.metrics import PATH
from ragtune.services.operations import OPERATIONS, Operation
from ragtune.services.rerank import RerankServer
from ragtune.services.security import HEALTH, KEY_ID, STATIC_PATH, Protection, Security

_MODELS = ("/v1/models", "/models", "/vllm/v1/models", "/infinity/models")
_INFO = ("/info", "/tei/info")
_STARTED = int(time.time())
_LABELS: dict[str, Any] = {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}
_JSON = "application/json"
_WHOLE = re.compile("[0-9]{1,9}", re.ASCII)
_REF = "#/components/schemas/{model}"
_PROBLEM = {"description": "A problem", "content": {MEDIA_TYPE: {"schema": {"$ref": _REF.format(model="Problem")}}}}

Schema = dict[str, Any]


def create_app(
    runner: Runner,
    security: Security,
    limits: ServerLimits,
    ranker: RerankServer | None,
    routes: Sequence[BaseRoute],
    lifespan: Callable[[FastAPI], Any],
) -> FastAPI:
    """The REST adapter as an ASGI application, with further routes behind the same protection."""
    app: FastAPI = FastAPIOffline(
        title="RAGtune",
        summary="The canonical blocks of retrieval-augmented generation.",
        version=__version__,
        routes=[*routes],
        redoc_url=None,
        static_url=STATIC_PATH,
        swagger_ui_parameters={"persistAuthorization": True},
        lifespan=lifespan,
        responses={"default": _PROBLEM},
    )
    schemas = _schemas()
    blocks = {operation.path: operation for operation in OPERATIONS}
    for operation in OPERATIONS:
        if operation.path not in BY_PATH:
            tag = "collections" if operation.path.startswith("/v1/collections") else "blocks"
            _add(app, _endpoint(operation, runner), tag, schemas, operation)
    for path, dialects in BY_PATH.items():
        block = blocks.get(path)
        endpoint = _rerank_endpoint(path, block, runner, ranker)
        if path == dialects[0].operation.path:
            operations = (dialect.operation for dialect in dialects)
            _add(app, endpoint, "rerank API", schemas, *filter(None, (block, *operations)))
        else:  # another path of the same
            app.add_api_route(path, endpoint, methods=["POST"], include_in_schema=False)
    _add_pages(app, runner, ranker, limits)
    _add_problems(app)
    _describe(app, schemas, security)
    answered = (lambda *_: None) if ranker is None else ranker.metrics.answered
    app.add_middleware(Protection, security=security, limits=limits, answered=answered)
    return app


def _add(
    app: FastAPI, endpoint: Callable[[Request], Any], tag: str, schemas: Schemas, *operations: Operation[Any]
) -> None:
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
        tags=[tag],
        responses=schemas.response(*operations),
        openapi_extra=describe(*operations),
    )


def _endpoint(operation: Operation[Any], runner: Runner) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        data = await _read_body(request) if operation.method == "POST" else _read_parameters(operation, request)
        return Response(await runner.run(operation, data), media_type=_JSON)

    return endpoint


def _rerank_endpoint(
    path: str, block: Operation[Any] | None, runner: Runner, ranker: RerankServer | None
) -> Callable[[Request], Any]:
    """An endpoint for all dialects at the path, and for the block there, whose requests have ``candidates``."""

    async def endpoint(request: Request) -> Response:
        def work() -> bytes:
            fields, is_json = fields_of(data)
            if block is not None and "candidates" in fields:
                return block.answer(runner.service, block.decode(data, is_json=is_json))
            request.state.dialect = dialect = dialect_of(path, fields)
            return dialect.operation.answer(ranker, dialect.operation.decode(data, is_json=is_json))

        data = await _read_body(request)
        permit = Permit(key=request.scope.get(KEY_ID, ""))
        answer = await runner.rerank(work, request.receive, permit)
        return Response(answer, media_type=_JSON, headers=permit.headers)

    return endpoint


async def _read_body(request: Request) -> bytes:
    given = request.headers.get("content-type", "")
    if given.partition(";")[0].strip().lower() != _JSON:
        raise AdapterError("unsupported-media-type", f"Content-Type: {given[:100]!r}, allowed is {_JSON}.")
    return await request.body()


def _read_parameters(operation: Operation[Any], request: Request) -> bytes:
    """The request as the JSON that it would be in a body, so that both are checked alike."""
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


def _add_pages(app: FastAPI, runner: Runner, ranker: RerankServer | None, limits: ServerLimits) -> None:
    def add(paths: Sequence[str], endpoint: Callable[[], Any], summary: str, **options: Any) -> None:
        for number, path in enumerate(paths):  # the first is described
            name, described = path[1:].replace("/", "_") or "about", number == 0
            about: dict[str, Any] = {"operation_id": name, "summary": summary, "include_in_schema": described}
            app.get(path, tags=["health"], **about, **options)(endpoint)

    async def healthz() -> Any:
        runner.check_threads()
        return JSONResponse({"status": "ok"})

    async def readyz() -> Any:
        await runner.check()
        return JSONResponse({"status": "ok"})

    public: dict[str, Any] = {"openapi_extra": {"security": []}}
    add(["/readyz"], readyz, "Do requests end, and does the database answer?", **public)
    add(["/"], lambda: _about(ranker), "What is this server?", **public)
    add(["/healthz"], healthz, "Does the server run, and do requests end?", **public)
    add(HEALTH, healthz, "Does the server run?", **public)
    add(_MODELS, lambda: _models(ranker), "The model, as OpenAI's API lists it.")
    add(_INFO, lambda: _info(ranker, limits), "The model, as TEI describes it.")
    if ranker is not None:

        def figures() -> dict[str, Any]:
            return ranker.metrics.recent.status(ranker.model, ranker.is_failing)

        summary = "Reranking's cost and savings, for Prometheus."
        add([PATH], ranker.metrics.page, summary, response_class=PlainTextResponse)
        summary = "What happened in the last hour and day"
        add([status.PATH], lambda: status.page(figures()), f"{summary}, as a page.", response_class=HTMLResponse)
        add([status.DATA_PATH], figures, f"{summary}.")


def _about(ranker: RerankServer | None) -> dict[str, Any]:
    """What this server is; no secret, so it needs no key."""
    paths = {dialect.name: dialect.operation.path for dialect in DIALECTS}
    return {
        "name": "RAGtune",
        "version": __version__,
        "about": "A rerank API with a budget, and the blocks of retrieval-augmented generation.",
        "rerank": {} if ranker is None else paths,
        "mcp": "/mcp",
        "docs": "/docs",
    }


def _models(ranker: RerankServer | None) -> dict[str, Any]:
    names = [] if ranker is None else [ranker.model]
    data = [{"id": name, "object": "model", "created": _STARTED, "owned_by": "ragtune"} for name in names]
    return {"object": "list", "data": data}


def _info(ranker: RerankServer | None, limits: ServerLimits) -> dict[str, Any]:
    """The description that Text Embeddings Inference has at ``/info``; its clients read the size of a batch."""
    if ranker is None:
        raise AdapterError("no-model", "Start it with --model to rerank documents here.")
    return {
        "model_id": ranker.model,
        "model_sha": None,
        "model_dtype": "unknown",
        "served_model_name": ranker.model,
        "model_type": {"reranker": _LABELS},
        "max_concurrent_requests": limits.in_flight,
        "max_input_length": ranker.max_length,
        "max_batch_tokens": ranker.max_length * ranker.max_documents,
        "max_batch_requests": None,
        "max_client_batch_size": ranker.max_documents,
        "auto_truncate": True,
        "tokenization_workers": 1,
        "version": __version__,
    }


def _add_problems(app: FastAPI) -> None:
    async def answer(request: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException) and error.status_code == 405:
            allowed = _methods(app, request)
            error = AdapterError("method-not-allowed", f"Allowed: {allowed}.", {"Allow": allowed})
        elif isinstance(error, HTTPException):
            error = AdapterError("not-found", f"{request.url.path[:200]} is no path of this server.")
        found = problem_at(request.url.path, error, getattr(request.state, "dialect", None))
        return Response(found.to_json(), found.status, headers_of(error, found))

    # What is answered here; anything else goes on to the server's log as well.
    for kind in (HTTPException, RagtuneError, Exception):
        app.add_exception_handler(kind, answer)


def _methods(app: FastAPI, request: Request) -> str:
    found: set[str] = set()
    for route in app.router.routes:
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE:
            found |= route.methods or set()
    return ", ".join(sorted(found))


def _describe(app: FastAPI, schemas: Schemas, security: Security) -> None:
    original = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is not None:
            return app.openapi_schema
        made = original()
        components = made.setdefault("components", {})
        components["schemas"] = schemas.components
        if security.api_key is not None:
            components["securitySchemes"] = {
                "bearer": {"type": "http", "scheme": "bearer"},
                "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            }
            made["security"] = [{"bearer": []}, {"header": []}]
        return made

    app.openapi = openapi  # type: ignore[method-assign]


@cache
def _schemas() -> Schemas:
    return Schemas()


class Schemas:
    """The OpenAPI components, and where each operation's request and response are among them."""

    def __init__(self) -> None:
        adapters: list[tuple[Any, JsonSchemaMode, TypeAdapter[Any]]] = [("problem", "validation", TypeAdapter(Problem))]
        for operation in (*OPERATIONS, *(dialect.operation for dialect in DIALECTS)):
            adapters.append((("request", operation.name), "validation", TypeAdapter(operation.request)))
            adapters.append((("response", operation.name), "serialization", operation.adapter))
        found, rest = TypeAdapter.json_schemas(adapters, ref_template=_REF)
        self.components: Schema = rest["$defs"]
        self._found: dict[Any, Any] = {key: schema for (key, _), schema in found.items()}

    def body(self, *operations: Operation[Any]) -> Schema:
        """Description of the request body of a POST operation, or of all that share an endpoint."""
        return {"requestBody": {"required": True, "content": self._any_of("request", operations)}}

    def parameters(self, operation: Operation[Any]) -> Schema:
        """Descriptions of the parameters of a GET or DELETE operation, in the path and the query."""
        schema = self.components[self._found["request", operation.name]["$ref"].rsplit("/", 1)[1]]
        return {
            "parameters": [
                {
                    "name": name,
                    "in": "path" if f"{{{name}}}" in operation.path else "query",
                    "required": name in schema.get("required", ()),
                    "schema": field,
                }
                for name, field in schema.get("properties", {}).items()
            ]
        }

    def response(self, *operations: Operation[Any]) -> dict[int | str, Schema]:
        """Description of the answer of an operation, or of all that share an endpoint."""
        return {200: {"description": "Done", "content": self._any_of("response", operations)}}

    def _any_of(self, part: str, operations: tuple[Operation[Any], ...]) -> Schema:
        schemas = [self._found[part, operation.name] for operation in operations]
        return {"application/json": {"schema": schemas[0] if len(schemas) == 1 else {"anyOf": schemas}}}
