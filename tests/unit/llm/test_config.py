"""The conf files build what they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from experiments.config.compose import compose
from experiments.replay.component import component
from ragtune.llm.client import LLMClient
from ragtune.llm.types import Message

CONF = Path(__file__).parents[3] / "conf"
LOCAL = ["+llm@rerankers.part=local"]
HELLO = [Message("user", "hello")]


def built(*options: str) -> Any:
    """The component that the options place where a component's own part would be."""
    return component({"part": compose(list(options))["rerankers"]["part"]}, "part")


def test_the_environments_server_is_asked_by_either_choice(llm_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = [*LOCAL, "rerankers.part.model=tiny"]
    assert built(*tiny).host == "localhost:11434/v1"
    monkeypatch.setenv("OPENAI_BASE_URL", llm_server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    monkeypatch.setenv("LLM_API_KEY", "local-canary")
    assert built(*tiny).chat(HELLO).text == "You said: hello"
    openai = built("+llm@rerankers.part=openai", "rerankers.part.prices=null", "rerankers.part.model=tiny2")
    assert openai.chat(HELLO).text == "You said: hello"
    sent = [request.headers["authorization"] for request in llm_server.requests]
    assert sent == ["Bearer local-canary", "Bearer sk-canary"]


def test_the_option_that_is_gone_is_accepted_for_one_release_with_a_warning() -> None:
    with pytest.warns(DeprecationWarning, match="repair"):
        LLMClient(model="m", base_url="http://localhost:1", repair=True, mode="live")
