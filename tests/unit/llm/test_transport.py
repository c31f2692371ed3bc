"""Retries, deadlines and the breaker; what a server says is believed only as far as it can be true, and paid for."""

import math
import resource
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial
from typing import Any

import pytest
from llm_server import Fault
from patience import HANG_S, longer
from pydantic import RootModel

from ragtune.core.request.clock import MonotonicClock, VirtualClock
from ragtune.core.types import CostObject
from ragtune.llm import connection
from ragtune.llm.client import LLMClient
from ragtune.llm.connection import retry_after_s
from ragtune.llm.errors import ServiceError
from ragtune.llm.types import Message

HELLO = [Message("user", "hello")]
PRICES = {"test": {"prompt": 1.0, "completion": 10.0}}
REAL = {"clock": MonotonicClock(), "sleep": time.sleep}
TRANSIENT = ["rate_limit", "server_error", "drop", "garbage"]

Make = Callable[..., LLMClient]
Names = RootModel[list[str]]


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


@pytest.mark.parametrize("asked", ["1e9", "inf"])
def test_a_rate_limit_stops_all_requests_but_none_for_more_than_a_minute(
    llm_server: Any, make_client: Make, sleeper: Any, asked: str
) -> None:
    llm_server.faults.append(Fault("rate_limit", retry_after=asked))
    client = make_client()
    error = fails(lambda: client.chat(HELLO))
    assert (error.kind, "asks to wait" in str(error), sleeper.waits) == ("rate_limited", True, [])
    other = fails(lambda: client.chat(HELLO, within_ms=10_000.0))
    assert (other.kind, other.attempts, len(llm_server.requests)) == ("deadline", 0, 1)
    assert 0.0 < client._transport._places._opens - time.monotonic() <= 60.0


def test_reads_retry_after_as_a_date() -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    seconds = retry_after_s({"retry-after": soon})
    assert 90 < seconds <= 100


def test_a_service_that_keeps_failing_gets_one_request_a_while(
    llm_server: Any, make_client: Make, clock: VirtualClock
) -> None:
    client = make_client(max_retries=0, breaker_failures=2, breaker_cooldown_s=1.0)
    broken, busy, refused = Fault("server_error"), Fault("rate_limit", retry_after=None), Fault("unauthorized")
    llm_server.faults += [busy, refused, busy, refused, broken, broken, broken, busy, None]
    answers = [fails(lambda: client.chat(HELLO)).kind for _ in range(4)]  # of a service that is not down
    assert answers == ["rate_limited", "rejected"] * 2
    said = [fails(lambda: client.chat(HELLO)).kind for _ in range(3)]
    assert said == ["unavailable", "unavailable", "circuit_open"]
    clock.advance(1000.0)
    assert [fails(lambda: client.chat(HELLO)).kind for _ in range(2)] == ["unavailable", "circuit_open"]
    clock.advance(1000.0)
    assert fails(lambda: client.chat(HELLO)).kind == "rate_limited"  # which shows neither that it works nor that not
    assert [client.chat(HELLO).text for _ in range(2)] == ["You said: hello"] * 2
    assert len(llm_server.requests) == 10


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


@pytest.mark.parametrize("fault", ["endless", "bomb"])
def test_a_body_is_read_no_further_than_it_may_be_long(
    llm_server: Any, make_client: Make, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "MOST_BODY_BYTES", 2**20)
    client = make_client()
    client.chat(HELLO)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    llm_server.faults += [Fault(fault)] * 2
    with pytest.raises(ServiceError, match="more than 1048576 bytes") as caught:
        client.chat(HELLO)
    assert (caught.value.kind, caught.value.attempts) == ("too_large", 1)
    if fault != "bomb":  # which the server, in this process, makes itself
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024
    llm_server.faults.clear()
    assert client.chat(HELLO).text == "You said: hello"


def test_a_reply_in_another_coding_than_asked_for_is_not_unpacked(llm_server: Any, make_client: Make) -> None:
    llm_server.faults.append(Fault("strange_coding"))
    with pytest.raises(ServiceError, match="packed otherwise than asked for"):
        make_client(max_retries=0).chat(HELLO)


def test_an_error_with_a_status_of_success_is_told_in_the_servers_words(llm_server: Any, make_client: Make) -> None:
    llm_server.alter = lambda whole: {"error": {"message": "the model is loading"}, "usage": whole["usage"]}
    with pytest.raises(ServiceError, match="unusable reply: the server says 'the model is loading'") as caught:
        make_client(max_retries=0).chat(HELLO)
    assert caught.value.cost.tokens == llm_server.billed_tokens > 0


def test_a_content_in_parts_is_read_without_its_thoughts(llm_server: Any, make_client: Make) -> None:
    def parts(whole: Any) -> Any:
        thoughts = {"type": "thinking", "thinking": [{"type": "text", "text": '["draft"]'}]}
        whole["choices"][0]["message"]["content"] = [thoughts, {"type": "text", "text": '["tea"]'}]
        return whole

    llm_server.alter = parts
    assert make_client(max_retries=0).chat_json(HELLO, Names).parsed.root == ["tea"]


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("usage", "tokens", "is_estimated"),
    [
        ({"prompt_tokens": 7, "completion_tokens": 9}, (7, 9), False),
        ({"prompt_tokens": "7", "completion_tokens": 9.0}, (7, 9), False),
        ({"prompt_tokens": 7}, (7, 4), True),
        ({"prompt_tokens": NAN, "completion_tokens": INF}, (1, 4), True),
        ({"prompt_tokens": "many", "completion_tokens": [9]}, (1, 4), True),
        (None, (1, 4), True),
    ],
    ids=lambda value: None if isinstance(value, bool | tuple) else str(value)[:30],
)
def test_tokens_that_cannot_be_believed_are_counted_here_and_marked(
    llm_server: Any, make_client: Make, usage: Any, tokens: tuple[int, int], is_estimated: bool
) -> None:
    llm_server.usage = usage
    made = make_client(mode="record", prices=PRICES).chat(HELLO)
    again = make_client(mode="replay", prices=PRICES).chat(HELLO)
    for result in (made, again):
        assert (result.prompt_tokens, result.completion_tokens) == tokens
        assert result.is_estimated is LLMClient.is_estimated(result) is is_estimated
    assert made.cost == again.cost == CostObject(tokens=sum(tokens), calls=1, usd=(tokens[0] + 10 * tokens[1]) / 1000)


def test_a_reply_without_an_answer_is_charged_what_the_server_reports(llm_server: Any, make_client: Make) -> None:
    llm_server.faults += [Fault("no_choices")] * 3 + [None]
    results = [make_client(mode=mode, prices=PRICES).chat(HELLO) for mode in ("record", "replay")]
    billed = CostObject(
        tokens=llm_server.billed_tokens,
        calls=1,
        latency_ms=results[0].latency_ms,
        usd=sum(request.prompt_tokens + 10 * request.completion_tokens for request in llm_server.requests) / 1000,
    )
    assert len(llm_server.billed) == 4
    assert results[0].cost == results[0].paid == results[1].cost == billed
