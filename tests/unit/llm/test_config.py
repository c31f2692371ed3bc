"""The conf files build what they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from experiments.config.compose import compose
from experiments.replay.component import component
from ragtune.embedders.openai_compatible import OpenAICompatibleEmbedder
from ragtune.llm.client import LLMClient
from ragtune.llm.types import Message

CONF = Path(__file__).parents[3] / "conf"
LOCAL = ["+llm@rerankers.part=local"]
HELLO = [Message("user", "hello")]


def built(*options: str) -> Any:
    """The component that the options place where a component's own part would be."""
    return component({"part": compose(list(options))["rerankers"]["part"]}, "part")


def test_a_client_is_placed_into_a_component(llm_server: Any) -> None:
    embedder = built(
        "+embedder@rerankers.part=openai_compatible",
        "+llm@rerankers.part.llm=local",
        "rerankers.part.llm.model=tiny",
        f"rerankers.part.llm.base_url={llm_server.url}",
    )
    assert isinstance(embedder, OpenAICompatibleEmbedder)
    assert embedder.embed(["text"]).shape == (1, 16)
    assert embedder.name == f"tiny@127.0.0.1:{llm_server.port}/v1"


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


@pytest.mark.parametrize("file", ["llm/openai.yaml", "llm/local.yaml", "embedder/openai_compatible.yaml"])
def test_no_file_holds_anything_like_a_key(file: str) -> None:
    node = yaml.safe_load((CONF / file).read_text(encoding="utf-8"))
    client = node.get("llm", node)
    assert client.get("api_key_env", "OPENAI_API_KEY") in ("OPENAI_API_KEY", "LLM_API_KEY")
    assert not {"api_key", "key", "token", "password"} & set(client)


def test_the_option_that_is_gone_is_accepted_for_one_release_with_a_warning() -> None:
    with pytest.warns(DeprecationWarning, match="repair"):
        LLMClient(model="m", base_url="http://localhost:1", repair=True, mode="live")
