"""A call ends by the clock on the wall, whatever the server does, and its time is charged."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from llm_server import Fault
from patience import HANG_S, longer
from pydantic import RootModel

from ragtune.core.request.clock import MonotonicClock
from ragtune.core.types import CostObject
from ragtune.llm.client import LLMClient
from ragtune.llm.errors import ServiceError
from ragtune.llm.types import Message

HELLO = [Message("user", "hello")]
REAL = {"clock": MonotonicClock(), "sleep": time.sleep}

Make = Callable[..., LLMClient]


class Names(RootModel[list[str]]):
    pass


def fails(call: Callable[[], Any]) -> ServiceError:
    begun = time.perf_counter()
    with pytest.raises(ServiceError) as caught:
        call()
    assert time.perf_counter() - begun < HANG_S / 2  # where what is broken off would take twice that
    return caught.value


@pytest.mark.parametrize("kind", ["timeout", "deadline"])
def test_a_dripped_body_ends_with_the_time_that_the_call_has(llm_server: Any, make_client: Make, kind: str) -> None:
    for limit_s in longer(0.2):
        llm_server.reset()
        llm_server.faults.append(Fault("drip"))
        timeout_s, within_ms = (limit_s, math.inf) if kind == "timeout" else (HANG_S, 1000.0 * limit_s)
        client = make_client(timeout_s=timeout_s, max_retries=0, breaker_failures=1, **REAL)
        client.prepare()
        error = fails(partial(client.chat, HELLO, within_ms=within_ms))
        if llm_server.requests:
            break
    assert error.kind == kind
    assert error.cost == error.paid == CostObject(calls=1, latency_ms=error.latency_ms)
    assert error.latency_ms > 100.0
    if kind == "deadline":  # which says nothing against the service: the breaker is closed
        assert client.chat(HELLO).text == "You said: hello"


@pytest.mark.parametrize(
    ("faults", "waits"),
    [
        ([Fault("server_error")], []),  # the backoff alone would take longer than there is
        ([Fault("rate_limit", retry_after="0.4")] * 9, [0.4, 0.4]),
    ],
)
def test_no_wait_passes_the_deadline(
    llm_server: Any, make_client: Make, sleeper: Any, faults: list[Fault], waits: list[float]
) -> None:
    llm_server.faults += faults
    client = make_client(max_retries=8, backoff_initial_s=8.0)
    error = fails(lambda: client.chat(HELLO, within_ms=1000.0))
    assert error.kind == "deadline"
    assert "the next attempt would come after the deadline" in str(error)
    assert sleeper.waits == waits
    assert error.cost == CostObject(calls=1, latency_ms=1000.0 * sum(waits))


# -- from the record ---------------------------------------------------------------------------------------------------


def test_a_recorded_answer_is_charged_what_it_took_and_is_late_where_it_would_have_been(
    llm_server: Any, make_client: Make
) -> None:
    llm_server.faults += [Fault("rate_limit", retry_after="2")]
    made = make_client(mode="record").chat(HELLO)
    assert made.cost == made.paid
    assert made.cost.latency_ms == 2000.0
    for mode in ("record", "replay"):
        again = make_client(mode=mode).chat(HELLO, within_ms=2000.0)
        assert (again.cost, again.paid) == (made.cost, CostObject())
        late = fails(partial(make_client(mode=mode).chat, HELLO, within_ms=1500.0))
        assert late.kind == "deadline"
        assert (late.cost, late.paid) == (CostObject(calls=1, latency_ms=1500.0), CostObject())
    assert len(llm_server.requests) == 2
