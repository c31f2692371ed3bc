"""What a server says is believed only as far as it can be true, read only as far as it is short, and paid for."""

from __future__ import annotations

import resource
from collections.abc import Callable
from typing import Any

import pytest
from llm_server import Fault
from pydantic import RootModel

from ragtune.core.types import CostObject
from ragtune.llm import connection
from ragtune.llm.client import LLMClient
from ragtune.llm.errors import ServiceError
from ragtune.llm.types import Message

HELLO = [Message("user", "hello")]
PRICES = {"test": {"prompt": 1.0, "completion": 10.0}}

Make = Callable[..., LLMClient]


class Names(RootModel[list[str]]):
    pass


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


# -- what it says that it cost -----------------------------------------------------------------------------------------

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


# -- what it was paid for nothing --------------------------------------------------------------------------------------


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
