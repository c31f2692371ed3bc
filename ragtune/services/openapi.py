"""The OpenAPI description of the operations: schemas of requests, responses and problems by the library's types."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaMode

from ragtune.services.errors import KINDS, MEDIA_TYPE, Problem
from ragtune.services.operations import OPERATIONS, Operation
from ragtune.services.payloads import InCollection
from ragtune.services.rerank import RERANK_OPERATIONS
from ragtune.services.rerank_payloads import RerankQuery

_REF = "#/components/schemas/{model}"
_COMMON = (400, 401, 403, 408, 413, 415, 421, 422, 500, 501, 502, 503, 504)
_COLLECTION = (404, 409)
_MODEL = (404,)

Schema = dict[str, Any]


class Schemas:
    """Components, and where each operation's request and response are among them."""

    def __init__(self) -> None:
        requests: list[tuple[Any, JsonSchemaMode, TypeAdapter[Any]]] = [
            (("request", op.name), "validation", TypeAdapter(op.request)) for op in (*OPERATIONS, *RERANK_OPERATIONS)
        ]
        responses: list[tuple[Any, JsonSchemaMode, TypeAdapter[Any]]] = [
            (("response", op.name), "serialization", op.adapter) for op in (*OPERATIONS, *RERANK_OPERATIONS)
        ]
        problem: tuple[Any, JsonSchemaMode, TypeAdapter[Any]] = ("problem", "validation", TypeAdapter(Problem))
        found, rest = TypeAdapter.json_schemas([*requests, *responses, problem], ref_template=_REF)
        self.components: Schema = rest["$defs"]
        self._found: dict[Any, Any] = {key: schema for (key, _), schema in found.items()}

    def body(self, *operations: Operation[Any]) -> Schema:
        """Description of the request body of a POST operation, or of all that share an endpoint."""
        schema = _any_of([self._found["request", operation.name] for operation in operations])
        return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}

    def parameters(self, operation: Operation[Any]) -> Schema:
        """Descriptions of the parameters of a GET or DELETE operation, in the path and the query."""
        schema = self.components[self._found["request", operation.name]["$ref"].rsplit("/", 1)[1]]
        found = []
        for name, field in schema.get("properties", {}).items():
            in_path = f"{{{name}}}" in operation.path
            found.append(
                {
                    "name": name,
                    "in": "path" if in_path else "query",
                    "required": name in schema.get("required", ()),
                    # What is absent is null: a parameter that is there is none.
                    "schema": _without_null(field),
                }
            )
        return {"parameters": found}

    def responses(self, *operations: Operation[Any]) -> dict[int | str, Schema]:
        """Descriptions of the responses of an operation, or of all that share an endpoint, by status."""
        further = [
            status
            for operation in operations
            for status in (
                *(_COLLECTION if issubclass(operation.request, InCollection) else ()),
                *(_MODEL if issubclass(operation.request, RerankQuery) else ()),
            )
        ]
        statuses = sorted({*_COMMON, *further})
        schema = _any_of([self._found["response", operation.name] for operation in operations])
        content = {"application/json": {"schema": schema}}
        return {200: {"description": "Done", "content": content}} | self.problems(statuses)

    def problems(self, statuses: list[int]) -> dict[int | str, Schema]:
        """Descriptions of the problem details that may be answered, by status."""
        content = {MEDIA_TYPE: {"schema": self._found["problem"]}}
        titles = {kind.status: kind.title for kind in reversed(KINDS.values())}
        return {status: {"description": titles[status], "content": content} for status in statuses}


def _any_of(schemas: list[Schema]) -> Schema:
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def _without_null(schema: Schema) -> Schema:
    kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
    if len(kinds) != 1:
        return schema
    return {**kinds[0], **{key: value for key, value in schema.items() if key not in ("anyOf", "default")}}
