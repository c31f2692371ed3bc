from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from llm_server import Fault

from ragtune.core.batches.failures import CircuitBreaker
from ragtune.core.request.clock import MonotonicClock, VirtualClock
from ragtune.core.types import CostObject
from ragtune.llm.client import LLMClient
from ragtune.llm.connection import retry_after_s
from ragtune.llm.errors import ServiceError
from ragtune.llm.types import Message

HELLO = [Message("user", "hello")]
TRANSIENT = ["rate_limit", "server_error", "drop", "garbage"]

Make = Callable[..., LLMClient]


@pytest.mark.parametrize("kind", TRANSIENT)
def test_what_passes_is_tried_again_and_billed_once(llm_server: Any, make_client: Make, kind: str) -> None:
    llm_server.faults += [Fault(kind, retry_after=None)] * 2
    result = make_client(backoff_initial_s=1.0).chat(HELLO)
    assert result.attempts == 3
    assert len(llm_server.billed) == 1
    assert result.cost.tokens == llm_server.billed_tokens
    # Two waits of 0.5 to 1 and 1 to 2 seconds.
    assert 1500.0 <= result.latency_ms <= 3000.0
    assert result.paid.latency_ms == result.cost.latency_ms == result.latency_ms


def test_a_service_that_is_not_there_says_where(make_client: Make) -> None:
    with pytest.raises(ServiceError, match=r"127\.0\.0\.1:9/v1 gave no answer in 3 attempts") as caught:
        make_client(base_url="http://127.0.0.1:9/v1", max_retries=2).chat(HELLO)
    assert (caught.value.kind, caught.value.attempts) == ("connection", 3)


def test_a_refused_request_is_not_sent_again(llm_server: Any, make_client: Make) -> None:
    llm_server.faults.append(Fault("unauthorized"))
    with pytest.raises(ServiceError, match="HTTP 401") as caught:
        make_client().chat(HELLO)
    assert caught.value.kind == "rejected"
    assert caught.value.cost.calls == 1
    assert len(llm_server.requests) == 1


@pytest.mark.parametrize(("kind", "named"), [("rate_limit", "rate_limited"), ("server_error", "unavailable")])
def test_retries_end(llm_server: Any, make_client: Make, sleeper: Any, kind: str, named: str) -> None:
    llm_server.faults += [Fault(kind, retry_after=None)] * 9
    with pytest.raises(ServiceError, match="in 3 attempts") as caught:
        make_client(max_retries=2, backoff_initial_s=6.0).chat(HELLO)
    assert caught.value.kind == named
    assert len(llm_server.requests) == 3
    first, second = sleeper.waits
    assert 3.0 <= first <= 6.0
    assert 4.0 <= second <= 8.0
    assert caught.value.latency_ms == pytest.approx(sum(sleeper.waits) * 1000.0)
    assert caught.value.cost == CostObject(calls=1, latency_ms=caught.value.latency_ms) == caught.value.paid


def test_the_servers_wish_to_wait_is_followed(llm_server: Any, make_client: Make, sleeper: Any) -> None:
    llm_server.faults += [Fault("rate_limit", retry_after="7"), Fault("rate_limit", retry_after="0")]
    make_client().chat(HELLO)
    assert sleeper.waits == [7.0, 0.0]


def test_a_server_that_wants_us_to_wait_too_long_is_not_waited_for(
    llm_server: Any, make_client: Make, sleeper: Any
) -> None:
    llm_server.faults.append(Fault("rate_limit", retry_after="3600"))
    with pytest.raises(ServiceError, match="asks to wait 3600 s"):
        make_client().chat(HELLO)
    assert sleeper.waits == []


@pytest.mark.parametrize(("value", "seconds"), [("", None), ("2.5", 2.5), ("-3", 0.0), ("soon", None), ("nan", None)])
def test_reads_retry_after(value: str, seconds: float | None) -> None:
    assert retry_after_s({"retry-after": value}) == seconds


def test_reads_retry_after_as_a_date() -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    seconds = retry_after_s({"retry-after": soon})
    assert seconds is not None
    assert 90 < seconds <= 100


# -- the breaker -------------------------------------------------------------------------------------------------------


def test_a_service_that_is_down_is_left_alone_until_it_may_have_recovered(
    llm_server: Any, make_client: Make, clock: VirtualClock
) -> None:
    client = make_client(max_retries=0, breaker_failures=2, breaker_cooldown_s=30.0)
    llm_server.faults += [Fault("server_error")] * 3
    for _ in range(2):
        with pytest.raises(ServiceError, match="HTTP 500"):
            client.chat(HELLO)
    with pytest.raises(ServiceError, match="nothing is sent for another 30 s") as caught:
        client.chat(HELLO)
    assert caught.value.kind == "circuit_open"
    assert len(llm_server.requests) == 2
    clock.advance(30_000.0)
    with pytest.raises(ServiceError, match="HTTP 500"):
        client.chat(HELLO)  # the probe fails: open again
    with pytest.raises(ServiceError, match="nothing is sent"):
        client.chat(HELLO)
    clock.advance(30_000.0)
    assert client.chat(HELLO).text == "You said: hello"
    assert client.chat(HELLO).text == "You said: hello"


def test_a_call_whose_own_failures_open_the_circuit_tells_of_them(llm_server: Any, make_client: Make) -> None:
    llm_server.faults += [Fault("server_error")] * 9
    with pytest.raises(ServiceError, match="HTTP 500") as caught:
        make_client(max_retries=8, breaker_failures=3).chat(HELLO)
    assert caught.value.attempts == len(llm_server.requests) == 3


@pytest.mark.parametrize("kind", ["rate_limit", "unauthorized"])
def test_a_service_that_answers_is_not_down(llm_server: Any, make_client: Make, kind: str) -> None:
    client = make_client(max_retries=0, breaker_failures=2)
    llm_server.faults += [Fault(kind, retry_after=None)] * 4
    for _ in range(4):
        with pytest.raises(ServiceError, match="HTTP 4"):
            client.chat(HELLO)
    assert client.chat(HELLO).text == "You said: hello"


def test_the_breaker_lets_one_probe_through_and_an_interrupted_one_frees_its_place(clock: VirtualClock) -> None:
    breaker = CircuitBreaker(1, 1000.0, clock)
    breaker.fail(breaker.enter())
    assert (breaker.state, breaker.wait_ms, breaker.enter()) == ("open", 1000.0, None)
    clock.advance(1000.0)
    probe = breaker.enter()
    assert (breaker.state, breaker.enter()) == ("half_open", None)
    assert probe is not None
    breaker.leave(probe)
    assert breaker.enter()
    breaker.succeed()
    assert (breaker.state, breaker.wait_ms) == ("closed", 0.0)


@pytest.mark.parametrize("late", ["leave", "fail"])
def test_a_request_from_before_the_breaker_opened_does_not_end_anothers_probe(clock: VirtualClock, late: str) -> None:
    breaker = CircuitBreaker(2, 1000.0, clock)
    slow, *failing = (breaker.enter() for _ in range(3))
    for permit in failing:
        breaker.fail(permit)
    clock.advance(1000.0)
    probe = breaker.enter()
    getattr(breaker, late)(slow)
    clock.advance(1000.0)
    assert breaker.enter() is None
    breaker.leave(probe)
    assert breaker.enter() is not None


def test_only_failures_in_a_row_count() -> None:
    breaker = CircuitBreaker(2, 1000.0, MonotonicClock())
    for _ in range(3):
        breaker.fail(breaker.enter())
        breaker.succeed()
    breaker.fail(breaker.enter())
    assert breaker.state == "closed"
