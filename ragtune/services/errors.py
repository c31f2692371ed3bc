"""What clients are told when something fails: problem details (RFC 9457), by one table for REST and MCP."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from ragtune.canonical.service import LimitExceededError
from ragtune.canonical.types import LISTED, OTHER
from ragtune.core.errors import (
    CollectionMismatchError,
    InputError,
    LLMError,
    MissingExtraError,
    ModelLoadError,
    RagtuneError,
    StoreError,
    StoreTimeoutError,
    UnknownCollectionError,
)

MEDIA_TYPE = "application/problem+json"
_TYPE = "urn:ragtune:problem:"
_MAX_TOLD = 20
_MAX_LOOKED_AT = 10_000
_log = logging.getLogger(__name__)


class FieldError(BaseModel):
    """What is wrong with a part of the request, by its JSON pointer (RFC 6901)."""

    pointer: str
    detail: str

    model_config = ConfigDict(frozen=True, extra="forbid")


class AdapterError(RagtuneError):
    """A failure of a service itself: a key of :data:`KINDS`, and the text that the client gets."""

    def __init__(
        self,
        kind: str,
        detail: str,
        headers: dict[str, str] | None = None,
        errors: list[FieldError] | None = None,
    ) -> None:
        super().__init__(detail)
        self.kind = kind
        self.errors = errors
        self.headers = headers or {}


class Problem(BaseModel):
    """Problem details (RFC 9457), with further members for the clients of a rerank API."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[FieldError] | None = None

    model_config = ConfigDict(frozen=True, extra="allow")

    def to_json(self) -> bytes:
        return self.model_dump_json(exclude_none=True).encode()


class Kind(NamedTuple):
    """A kind of problem: its HTTP status, a title, and the error that has it, with errors derived from that one."""

    status: int
    title: str
    error: type[Exception] | None = None


KINDS: dict[str, Kind] = {
    "malformed-request": Kind(400, "The request is no JSON"),
    "unauthorized": Kind(401, "An API key is needed"),
    "forbidden-origin": Kind(403, "Requests of this web page are refused"),
    "not-found": Kind(404, "There is nothing here"),
    "unknown-collection": Kind(404, "No such collection", UnknownCollectionError),
    "no-model": Kind(404, "The server has no model that reranks"),
    "method-not-allowed": Kind(405, "Not with this method"),
    "slow-request": Kind(408, "The request came too slowly"),
    "collection-mismatch": Kind(409, "The collection has another embedding model", CollectionMismatchError),
    "too-large": Kind(413, "The request is too large"),
    "unsupported-media-type": Kind(415, "The request must be JSON"),
    "wrong-host": Kind(421, "This server has another name"),
    "invalid-request": Kind(422, "The request is not valid", InputError),
    "limit-exceeded": Kind(422, "More than one request may ask for", LimitExceededError),
    "over-limit": Kind(429, "The key's limit of the day is reached"),
    "internal-error": Kind(500, "The server failed"),
    "missing-extra": Kind(501, "The server lacks an optional dependency", MissingExtraError),
    "model-service": Kind(502, "The model's service failed", LLMError),
    "store": Kind(503, "The database failed", StoreError),
    "model": Kind(503, "The model cannot be loaded", ModelLoadError),
    "saturated": Kind(503, "Too many requests at once"),
    "hanging": Kind(503, "Requests hang"),
    "timeout": Kind(504, "The request took too long", StoreTimeoutError),
}

_KIND_OF = {kind.error: name for name, kind in KINDS.items() if kind.error is not None}


def problem_of(error: Exception) -> Problem:
    """What a client is told of an error; logs what it is not told."""
    kind, detail, errors = "internal-error", "The failure is in the server's log.", None
    if isinstance(error, AdapterError):
        kind, detail, errors = error.kind, str(error), error.errors
    elif known := next((_KIND_OF[type_] for type_ in type(error).__mro__ if type_ in _KIND_OF), None):
        kind, detail = known, str(error)
        if KINDS[kind].status >= 500:
            _log.warning("%s: %s", kind, error)
    else:
        _log.error("unexpected error", exc_info=error)
    status, title, _ = KINDS[kind]
    return Problem(type=_TYPE + kind, title=title, status=status, detail=detail, errors=errors)


def headers_of(error: Exception, found: Problem) -> dict[str, str]:
    """Headers of the response to an error."""
    own = error.headers if isinstance(error, AdapterError) else {}
    if not own and found.status == 503:
        own = {"Retry-After": "1"}
    return {"Content-Type": MEDIA_TYPE, "Cache-Control": "no-store", **own}


def invalid(error: ValidationError) -> AdapterError:
    """What a client is told of a request that is not valid; takes time, though never more than so many errors need."""
    count = error.error_count()
    if count > _MAX_LOOKED_AT:
        return AdapterError("invalid-request", f"{count} parts of the request are not allowed, too many to list.")
    errors = [
        FieldError(pointer=_pointer(one["loc"]), detail=one["msg"])
        for one in error.errors(include_url=False, include_input=False, include_context=False)
    ]
    more = f", and {count - 1} more" if count > 1 else ""
    detail = f"{errors[0].pointer or '/'}: {errors[0].detail}{more}"
    return AdapterError("invalid-request", detail, errors=errors[:_MAX_TOLD])


def _pointer(location: tuple[Any, ...]) -> str:
    keys = (str(part) for part in location if part not in (LISTED, OTHER))
    return "".join("/" + key.replace("~", "~0").replace("/", "~1") for key in keys)
