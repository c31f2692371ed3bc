import dataclasses
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llm_server import Fault
from patience import HANG_S
from pydantic import RootModel

from ragtune.core.errors import CacheMissError, ConfigError, LLMError
from ragtune.core.types import CostObject
from ragtune.llm.client import LLMClient
from ragtune.llm.errors import AnswerError, ServiceError
from ragtune.llm.types import Message

HELLO = [Message("user", "hello")]

Make = Callable[..., LLMClient]
Names = RootModel[list[str]]


def lasting(outcome: Any) -> Any:
    """What must not depend on where an answer came from."""
    if isinstance(outcome, LLMError):
        return type(outcome), str(outcome), LLMClient.cost(outcome)
    return dataclasses.replace(outcome, cached=False)


def test_live_keeps_nothing(llm_server: Any, make_client: Make, private_cache: Path) -> None:
    client = make_client(mode="live")
    assert not client.chat(HELLO).cached
    assert not client.chat(HELLO).cached
    assert len(llm_server.requests) == 2
    assert not private_cache.exists()


def test_recording_pays_once_for_ever(llm_server: Any, make_client: Make) -> None:
    first = make_client(mode="record").chat(HELLO)
    again = make_client(mode="record").chat(HELLO)
    assert len(llm_server.requests) == 1
    assert (first.cached, again.cached) == (False, True)
    assert lasting(first) == lasting(again)
    assert LLMClient.cost(again) == LLMClient.cost(first)
    assert LLMClient.paid(again) == CostObject()


def test_replay_needs_neither_key_nor_library(llm_server: Any, make_client: Make, private_cache: Path) -> None:
    make_client(mode="record").chat(HELLO)
    code = (
        "import sys; sys.modules['aiohttp'] = None\n"
        "from ragtune.llm.client import LLMClient; from ragtune.llm.types import Message\n"
        "print(LLMClient(model='test', mode='replay').chat([Message('user', 'hello')]).text)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG_S)
    assert done.stdout == "You said: hello\n", done.stderr


def test_a_missing_answer_is_an_error_that_names_it(llm_server: Any, make_client: Make, private_cache: Path) -> None:
    with pytest.raises(CacheMissError, match=r"'test' with key [0-9a-f]{16} to \"what is 茶\?\": run it once"):
        make_client(mode="replay").chat([Message("system", "x"), Message("user", "what\nis 茶?")])
    assert llm_server.requests == []
    assert not private_cache.exists()


@pytest.mark.parametrize("change", [{"model": "other"}, {"temperature": 0.5}, {"extra": {"top_k": 1}}])
def test_every_parameter_is_part_of_the_key(llm_server: Any, make_client: Make, change: dict[str, Any]) -> None:
    make_client(mode="record").chat(HELLO)
    with pytest.raises(CacheMissError):
        make_client(mode="replay", **change).chat(HELLO)
    with pytest.raises(CacheMissError):
        make_client(mode="replay").chat([Message("system", "hello")])
    with pytest.raises(CacheMissError):
        make_client(mode="replay").chat_json(HELLO, Names)


@pytest.mark.parametrize("fault", ["refusal", "cut_off", "empty"])
def test_a_useless_answer_was_paid_for_and_replays_as_such(llm_server: Any, make_client: Make, fault: str) -> None:
    llm_server.faults.append(Fault(fault))
    outcomes = []
    for mode in ("record", "record", "replay"):
        with pytest.raises(AnswerError) as caught:
            make_client(mode=mode).chat(HELLO)
        outcomes.append(caught.value)
    assert len(llm_server.requests) == 1
    assert lasting(outcomes[0]) == lasting(outcomes[1]) == lasting(outcomes[2])
    assert outcomes[2].paid == CostObject()


def test_a_failed_call_replays_as_such_and_is_tried_again_when_recording(llm_server: Any, make_client: Make) -> None:
    llm_server.faults.append(Fault("unauthorized"))
    with pytest.raises(ServiceError) as live:
        make_client(mode="record").chat(HELLO)
    with pytest.raises(ServiceError) as replayed:
        make_client(mode="replay").chat(HELLO)
    assert lasting(live.value) == lasting(replayed.value)
    assert make_client(mode="record").chat(HELLO).text == "You said: hello"
    assert make_client(mode="replay").chat(HELLO).text == "You said: hello"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_a_forked_child_leaves_the_connections_of_its_parent_alone(llm_server: Any, make_client: Make) -> None:
    client = make_client(mode="record")
    client.chat(HELLO)
    child = os.fork()
    if child == 0:
        ok = client.chat([Message("user", "child")]).text == "You said: child"
        os._exit(0 if ok else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert client.chat([Message("user", "child")]).cached
    parents = client.chat([Message("user", "parent")])
    assert (parents.text, parents.attempts) == ("You said: parent", 1)


def test_a_record_needs_a_folder() -> None:
    for mode in ("record", "replay"):
        with pytest.raises(ConfigError, match=f"cache_dir=None with mode='{mode}'"):
            LLMClient(model="test", mode=mode, cache_dir=None)


def test_embeddings_come_in_the_order_of_the_texts_whatever_the_server_does(llm_server: Any, make_client: Make) -> None:
    texts = [f"text number {i}" for i in range(130)]
    result = make_client(prices={"test": {"prompt": 1.0}}).embed(texts)
    np.testing.assert_array_equal(result.vectors, [llm_server.embed(text) for text in texts])
    assert (result.cost.calls, len(llm_server.requests)) == (3, 3)
    assert result.cost.tokens == llm_server.billed_tokens
    assert result.cost.usd == pytest.approx(llm_server.billed_tokens / 1000)


def test_equal_texts_are_sent_once_and_replay_sends_none(llm_server: Any, make_client: Make) -> None:
    result = make_client(mode="record").embed(["a", "b", "a"])
    assert [request.body["input"] for request in llm_server.requests] == [["a", "b"]]
    np.testing.assert_array_equal(result.vectors, [llm_server.embed(text) for text in "aba"])
    with pytest.raises(CacheMissError, match="embeddings are not recorded"):
        make_client(mode="replay").embed(["a"])
