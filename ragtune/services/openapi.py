"""The OpenAPI description of the operations: schemas of requests, responses and problems by the library's types."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaMode

from ragtune.services.errors import KINDS, MEDIA_TYPE, Problem
from ragtune.services.operations import OPERATIONS, Operation
from ragtune.services.rerank import RERANK_OPERATIONS

_REF = "#/components/schemas/{model}"
_STATUSES = (400, 401, 403, 404, 408, 409, 413, 415, 421, 422, 500, 501, 502, 503, 504)

Schema = dict[str, Any]


class Schemas:
    """Components, and where each operation's request and response are among them."""

    def __init__(self) -> None:
        adapters: list[tuple[Any, JsonSchemaMode, TypeAdapter[Any]]] = [("problem", "validation", TypeAdapter(Problem))]
        for operation in (*OPERATIONS, *RERANK_OPERATIONS):
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

    def responses(self, *operations: Operation[Any]) -> dict[int | str, Schema]:
        """Descriptions of the responses of an operation, or of all that share an endpoint, by status."""
        done: Schema = {"description": "Done", "content": self._any_of("response", operations)}
        return {200: done} | self.problems(_STATUSES)

    def problems(self, statuses: tuple[int, ...]) -> dict[int | str, Schema]:
        content = {MEDIA_TYPE: {"schema": self._found["problem"]}}
        titles = {kind.status: kind.title for kind in reversed(KINDS.values())}
        return {status: {"description": titles[status], "content": content} for status in statuses}

    def _any_of(self, part: str, operations: tuple[Operation[Any], ...]) -> Schema:
        schemas = [self._found[part, operation.name] for operation in operations]
        return {"application/json": {"schema": schemas[0] if len(schemas) == 1 else {"anyOf": schemas}}}
