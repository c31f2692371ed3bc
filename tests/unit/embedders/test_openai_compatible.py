from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from ragtune.core.errors import ConfigError
from ragtune.embedders.openai_compatible import OpenAICompatibleEmbedder
from ragtune.llm.client import LLMClient


def make(server: Any, dims: int | None = None) -> OpenAICompatibleEmbedder:
    return OpenAICompatibleEmbedder(LLMClient(model="tiny", base_url=server.url, mode="live"), dims)


def test_blank_texts_are_not_sent_and_have_zero_rows(llm_server: Any) -> None:
    vectors = make(llm_server).embed(["tea", " \n", "", "honey"])
    assert [request.body["input"] for request in llm_server.requests] == [["tea", "honey"]]
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), [1, 0, 0, 1], atol=1e-6)


def test_the_width_is_asked_for_once_where_no_text_tells_it(llm_server: Any) -> None:
    embedder = make(llm_server)
    assert embedder.embed([]).shape == embedder.embed([""])[:0].shape == (0, 16)
    assert len(llm_server.requests) == 1


def test_a_given_width_needs_no_request_and_is_held_to(llm_server: Any) -> None:
    assert make(llm_server, dims=8).embed([""]).shape == (1, 8)
    assert llm_server.requests == []
    with pytest.raises(ConfigError, match=r"embedder dims=8: tiny@.* gives vectors of length 16"):
        make(llm_server, dims=8).embed(["tea"])


def test_a_vector_of_zeros_stays_one(llm_server: Any) -> None:
    llm_server.embed = lambda text: [0.0, 0.0]
    np.testing.assert_array_equal(make(llm_server).embed(["tea"]), [[0.0, 0.0]])


def test_is_named_after_model_and_server(llm_server: Any) -> None:
    assert make(llm_server).name == f"tiny@127.0.0.1:{llm_server.port}/v1"


def test_preparing_opens_a_connection_and_sends_nothing(llm_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    embedder = make(llm_server)
    embedder.prepare()
    assert llm_server.requests == []
    with pytest.raises(ConfigError, match="OPENAI_API_KEY is not set"):
        OpenAICompatibleEmbedder(LLMClient(model="tiny", mode="live")).prepare()


def test_travels_to_another_process(llm_server: Any) -> None:
    embedder = make(llm_server)
    before = embedder.embed(["tea"])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(embedder)).embed(["tea"]), before)


def test_bad_settings_are_refused_by_quoting_them(llm_server: Any) -> None:
    with pytest.raises(ConfigError, match="embedder dims=0: allowed"):
        make(llm_server, dims=0)
