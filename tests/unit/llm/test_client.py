import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from enum import Enum
from typing import Annotated, Any

import pytest
from llm_server import Fault
from patience import HANG_S
from pydantic import BaseModel, Field, RootModel

from ragtune.core.errors import ConfigError, LLMError
from ragtune.core.request.clock import MonotonicClock
from ragtune.llm.client import LLMClient
from ragtune.llm.errors import AnswerError, ServiceError
from ragtune.llm.transport import map_all
from ragtune.llm.types import Message

HELLO = [Message("system", "Be kind."), Message("user", "hello")]
PRICES = {"test": {"prompt": 1.0, "completion": 10.0}}

Make = Callable[..., LLMClient]
Names = RootModel[list[str]]


class Colour(str, Enum):
    RED = "red"
    BLUE = "blue"


class Choice(BaseModel):
    colour: Colour


class Pair(BaseModel):
    names: Annotated[list[str], Field(min_length=2, max_length=2)]


def test_an_answer_comes_with_its_bill(llm_server: Any, make_client: Make) -> None:
    result = make_client(prices=PRICES).chat(HELLO)
    [request] = llm_server.requests
    assert result.text == "You said: hello"
    assert (result.prompt_tokens, result.completion_tokens) == (request.prompt_tokens, request.completion_tokens)
    assert result.usd == pytest.approx(result.prompt_tokens / 1000 + result.completion_tokens / 100)
    assert (result.model, result.finish_reason, result.attempts, result.cached) == ("test", "stop", 1, False)
    assert LLMClient.cost(result) == LLMClient.paid(result)
    assert LLMClient.cost(result).tokens == llm_server.billed_tokens


def test_asks_for_the_same_every_time(llm_server: Any, make_client: Make) -> None:
    make_client().chat(HELLO)
    assert llm_server.requests[0].body == {
        "model": "test",
        "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "hello"}],
        "temperature": 0.0,
        "seed": 0,
        "max_tokens": 512 + 4096,
    }


@pytest.mark.parametrize(("fault", "kind"), [("cut_off", "truncated"), ("refusal", "refusal"), ("empty", "empty")])
def test_an_answer_that_is_none_is_an_error_with_its_bill(
    llm_server: Any, make_client: Make, fault: str, kind: str
) -> None:
    llm_server.faults.append(Fault(fault))
    with pytest.raises(AnswerError) as caught:
        make_client(prices=PRICES).chat(HELLO)
    assert caught.value.kind == kind
    assert LLMClient.cost(caught.value).tokens == llm_server.billed_tokens
    assert LLMClient.cost(caught.value) == LLMClient.paid(caught.value)


def test_errors_travel_between_processes(llm_server: Any, make_client: Make) -> None:
    llm_server.faults += [Fault("refusal"), Fault("unauthorized")]
    for kind in ("refusal", "rejected"):
        with pytest.raises((AnswerError, ServiceError)) as caught:
            make_client().chat(HELLO)
        copy = pickle.loads(pickle.dumps(caught.value))
        assert (str(copy), copy.kind, copy.cost) == (str(caught.value), kind, caught.value.cost)


@pytest.mark.parametrize(
    ("fault", "schema", "kind"),
    [
        ("malformed_json", Choice, "malformed_json"),
        ("wrong_enum", Choice, "wrong_enum"),
        ("wrong_count", Pair, "wrong_count"),
        (None, Names, "wrong_shape"),
    ],
)
def test_json_that_is_not_what_was_asked_for_says_how(
    llm_server: Any, make_client: Make, fault: str | None, schema: type[BaseModel], kind: str
) -> None:
    llm_server.answer('{"names": ["a", "b"]}' if schema is Pair else '{"colour": "red"}')
    llm_server.faults.append(Fault(fault) if fault else None)
    with pytest.raises(AnswerError) as caught:
        make_client().chat_json(HELLO, schema)
    assert caught.value.kind == kind
    assert len(llm_server.requests) == 1


@pytest.mark.parametrize("mode", ["json_object", "json_schema"])
def test_the_server_is_told_of_json_only_where_it_knows_it(llm_server: Any, make_client: Make, mode: str) -> None:
    llm_server.answer('{"colour": "red"}')
    make_client().chat_json(HELLO, Choice)
    make_client(json_mode=mode).chat_json(HELLO, Choice)
    assert "response_format" not in llm_server.requests[0].body
    assert llm_server.requests[1].body["response_format"]["type"] == mode


def test_many_are_answered_in_order_and_a_failed_one_fails_alone(llm_server: Any, make_client: Make) -> None:
    llm_server.answer(lambda chat: f'["{chat.prompt}"]')
    llm_server.answer("", when=lambda chat: chat.prompt == "3")
    got = make_client(concurrency=3).chat_json_many([[Message("user", f"{i}")] for i in range(8)], Names)
    assert [str(one) if isinstance(one, LLMError) else one.parsed.root for one in got] == [
        "test gave an empty answer" if i == 3 else [f"{i}"] for i in range(8)
    ]


def test_never_more_requests_at_once_than_allowed(llm_server: Any, make_client: Make) -> None:
    llm_server.faults += [Fault("slow", delay_s=0.02)] * 12
    llm_server.together = 2
    client = make_client(concurrency=2, clock=MonotonicClock())
    with ThreadPoolExecutor(12) as callers:
        list(callers.map(lambda i: client.chat([Message("user", f"{i}")]), range(12)))
    assert len(llm_server.requests) == 12
    assert llm_server.most_at_once == 2


def test_an_interrupt_waits_for_nothing_and_begins_nothing_more() -> None:
    begun: list[int] = []
    release = threading.Event()

    def hang(number: int) -> None:
        begun.append(number)
        if number == 1:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)  # which waits
        release.wait(60)

    before = set(threading.enumerate())
    try:
        with pytest.raises(KeyboardInterrupt):
            map_all(hang, range(5), 2)
    finally:
        release.set()
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
    assert sorted(begun) == [0, 1]


def test_a_client_that_is_prepared_imports_nothing_for_its_calls(llm_server: Any) -> None:
    code = (
        "import sys; from ragtune.llm.client import LLMClient; from ragtune.llm.types import Message\n"
        "client = LLMClient(model='test', base_url=sys.argv[1], mode='live'); client.prepare()\n"
        "known = set(sys.modules); client.chat([Message('user', 'hello')]); client.embed(['text'])\n"
        "print(sorted(name for name in set(sys.modules) - known if not name.startswith('encodings')))"
    )
    done = subprocess.run([sys.executable, "-c", code, llm_server.url], capture_output=True, text=True, timeout=HANG_S)
    assert (done.stdout, done.stderr) == ("[]\n", "")
    assert len(llm_server.requests) == 2


@pytest.mark.parametrize(("mode", "refused"), [("live", True), ("record", False), ("replay", False)])
def test_a_missing_key_is_told_at_once_where_every_call_needs_it(mode: str, refused: bool) -> None:
    client = LLMClient(model="test", mode=mode)
    with pytest.raises(ConfigError, match="OPENAI_API_KEY is not set") if refused else nullcontext():
        client.prepare()


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("model", " "),
        ("mode", "dead"),
        ("max_tokens_field", "length"),
        ("timeout_s", 0),
        ("json_mode", "maybe"),
    ],
)
def test_bad_settings_are_refused_by_quoting_them(argument: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"llm {argument}={value!r}: allowed"):
        LLMClient(**({"model": "test", "mode": "live"} | {argument: value}))


def test_the_option_that_is_gone_is_accepted_for_one_release_with_a_warning() -> None:
    with pytest.warns(DeprecationWarning, match="repair"):
        LLMClient(model="m", base_url="http://localhost:1", repair=True, mode="live")
