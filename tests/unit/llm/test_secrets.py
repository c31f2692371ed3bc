"""A key that is planted in the environment may leave in the Authorization header, and nowhere else."""

import base64
import pickle
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from llm_server import Fault
from pydantic import RootModel

from ragtune.core.errors import ConfigError
from ragtune.llm.client import LLMClient
from ragtune.llm.errors import AnswerError, ServiceError
from ragtune.llm.types import Message

KEY = "sk-canary-0123456789"
PASSWORD = "p4ss/canary"
BASIC = base64.b64encode(f"canary-user:{PASSWORD}".encode()).decode()
HELLO = [Message("user", "hello")]

Make = Callable[..., LLMClient]


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return KEY


@pytest.fixture
def behind_a_password(llm_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", llm_server.url.replace("://", f"://canary-user:{quote(PASSWORD, safe='')}@"))


def shown(error: BaseException) -> str:
    """All that printing, formatting or pickling an error and whatever it drags along could show."""
    chain, link = [], error
    while link is not None:
        chain.append(f"{link!r} {link.args!r} {vars(link)!r}")
        link = link.__cause__ or link.__context__  # type: ignore[assignment]
    return "\n".join([*chain, *traceback.format_exception(error), repr(pickle.dumps(error))])


def test_no_secret_in_the_record_even_if_a_server_repeats_it(
    llm_server: Any, make_client: Make, key: str, private_cache: Path
) -> None:
    llm_server.answer(lambda chat: f"your key is {KEY}", when=lambda chat: chat.prompt == "tell")
    llm_server.faults += [None, Fault("unauthorized")]
    client = make_client(mode="record")
    assert client.chat([Message("user", "tell")]).text == "your key is [secret]"
    with pytest.raises(ServiceError):
        client.chat(HELLO)
    client.embed(["text"])
    client.close()
    files = [path for path in private_cache.rglob("*") if path.is_file()]
    assert files
    for path in files:
        assert KEY.encode() not in path.read_bytes()


@pytest.mark.parametrize("leak", [KEY, PASSWORD, PASSWORD.replace("/", "%2F"), BASIC])
def test_no_secret_wherever_a_reply_repeats_it(
    llm_server: Any, make_client: Make, behind_a_password: None, private_cache: Path, leak: str
) -> None:
    choice = {"message": {"content": f'["a {leak} b"]', leak: leak}, "finish_reason": leak}
    leaky = {"choices": [choice], "model": leak, "id": leak, "usage": {"prompt_tokens": leak, leak: 1}, leak: leak}
    replies = iter([leaky, {"choices": leak}, leaky | {"choices": [choice | {"finish_reason": "length"}]}])
    llm_server.alter = lambda reply: next(replies)
    client = make_client(mode="record", max_retries=0, base_url=None)
    result = client.chat_json(HELLO, RootModel[list[str]])
    assert result.parsed.root == ["a [secret] b"]
    assert (result.model, result.finish_reason) == ("[secret]", "[secret]")
    errors = []
    for name in "ab":
        with pytest.raises((ServiceError, AnswerError)) as caught:
            client.chat([Message("user", name)])
        errors.append(shown(caught.value))
    client.close()
    kept = b"".join(path.read_bytes() for path in private_cache.rglob("*") if path.is_file()).decode("latin-1")
    assert "[secret]" in kept
    for place in (repr(result), *errors, kept):
        assert leak not in place


@pytest.mark.parametrize("url", ["http://user:p4ss%2Fcanary@host/v1", f"http://host/v1?key={PASSWORD}", PASSWORD])
def test_a_secret_in_the_configuration_is_refused_without_quoting_it(url: str) -> None:
    with pytest.raises(ConfigError, match=r"base_url.*allowed is http") as caught:
        LLMClient(model="test", base_url=url)
    assert PASSWORD not in shown(caught.value)


@pytest.mark.parametrize("bad", [KEY + "\n", KEY + "é"])
def test_a_key_that_no_header_can_carry_is_refused_without_quoting_it(
    make_client: Make, monkeypatch: pytest.MonkeyPatch, bad: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", bad)
    with pytest.raises(ConfigError, match="OPENAI_API_KEY holds blanks or characters") as caught:
        make_client().chat(HELLO)
    assert KEY not in shown(caught.value)


def test_a_server_of_this_machine_is_the_default_where_the_environment_names_none(
    llm_server: Any, make_client: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = make_client(base_url=None, default_base_url="http://127.0.0.1:9/v1", max_retries=0)
    assert client.host == "127.0.0.1:9/v1"
    with pytest.raises(ServiceError, match=r"127\.0\.0\.1:9/v1 gave no answer"):
        client.chat(HELLO)
    monkeypatch.setenv("OPENAI_BASE_URL", llm_server.url)
    assert make_client(base_url=None, default_base_url="http://127.0.0.1:9/v1").chat(HELLO).text == "You said: hello"
    with pytest.raises(ConfigError, match="llm default_base_url: allowed is http"):
        make_client(default_base_url="localhost")
