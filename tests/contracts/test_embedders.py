"""Every embedder keeps the contract."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ragtune.core.interfaces import BaseEmbedder
from ragtune.embedders.hashing import HashingEmbedder
from ragtune.embedders.openai_compatible import OpenAICompatibleEmbedder
from ragtune.embedders.sentence_transformer import SentenceTransformerEmbedder
from ragtune.embedders.tfidf import TfidfEmbedder
from ragtune.llm.client import LLMClient
from ragtune.testing import EmbedderContract

EMBEDDERS: dict[str, Callable[[pytest.FixtureRequest], BaseEmbedder]] = {
    "openai_compatible": lambda request: OpenAICompatibleEmbedder(
        LLMClient(
            model="tiny",
            base_url=request.getfixturevalue("llm_server").url,
            mode="live",
        )
    ),
    "hashing": lambda request: HashingEmbedder(),
    "hashing_small": lambda request: HashingEmbedder(dims=64),
    "sentence_transformer": lambda request: SentenceTransformerEmbedder(
        request.getfixturevalue("minilm"), batch_size=4, device="cpu"
    ),
    "sentence_transformer_short": lambda request: SentenceTransformerEmbedder(
        request.getfixturevalue("minilm"), max_length=8, device="cpu"
    ),
    "tfidf": lambda request: TfidfEmbedder(request.getfixturevalue("corpus")),
    "tfidf_plain": lambda request: TfidfEmbedder(request.getfixturevalue("corpus"), sublinear_tf=False, min_df=2),
}


class TestEmbedders(EmbedderContract):
    @pytest.fixture(autouse=True, params=EMBEDDERS)
    def chosen(self, request: pytest.FixtureRequest) -> None:
        self.request = request

    def make(self) -> BaseEmbedder:
        return EMBEDDERS[self.request.param](self.request)


def test_the_name_tells_settings_apart(request: pytest.FixtureRequest) -> None:
    names = {make(request).name for make in EMBEDDERS.values()}
    assert len(names) == len(EMBEDDERS)
