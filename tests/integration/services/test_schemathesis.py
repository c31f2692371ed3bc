"""A fuzzer that reads the OpenAPI description finds no failure of the server and nothing that is not described."""

from __future__ import annotations

from contextlib import nullcontext

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import (
    ignored_auth,
    positive_data_acceptance,
    response_schema_conformance,
    status_code_conformance,
)

from ragtune.canonical.service import RagService
from ragtune.canonical.store.memory import MemoryDatabase
from ragtune.embedders.hashing import HashingEmbedder
from ragtune.services.limits import Runner, ServerLimits
from ragtune.services.rest import create_app
from ragtune.services.security import Security

HOST = {"Host": "localhost"}


def load(security: Security) -> schemathesis.BaseSchema:
    service = RagService(MemoryDatabase(), {"hashing": HashingEmbedder(dims=16)})
    service.create_collection("c")
    limits = ServerLimits()
    # Schemathesis opens the lifespan of the application anew for every request, which MCP does not allow.
    app = create_app(Runner(service, limits), security, limits, None, [], lambda _: nullcontext())
    return schemathesis.openapi.from_asgi("/openapi.json", app, headers={**HOST, "X-API-Key": security.api_key or ""})


def examples(count: int) -> settings:
    checks = list(HealthCheck)
    return settings(max_examples=count, deadline=None, derandomize=True, database=None, suppress_health_check=checks)


open_api, closed_api = load(Security()), load(Security(api_key="a-key-that-is-not-guessed"))


@open_api.parametrize()
@examples(25)
def test_every_answer_is_one_that_openapi_describes(case: schemathesis.Case) -> None:
    # A schema cannot say all that a request must be (k <= candidate_pool, no NUL): valid data may be refused.
    case.call_and_validate(headers=HOST, excluded_checks=[positive_data_acceptance])


@closed_api.include(path_regex="^/v1/").parametrize()
@examples(3)
def test_no_operation_is_open_to_a_guessed_key(case: schemathesis.Case) -> None:
    response = case.call(headers=HOST)
    assert response.status_code == 401
    case.validate_response(response, checks=[ignored_auth, status_code_conformance, response_schema_conformance])
