"""Every reranker keeps the contract."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ragtune.core.interfaces import BaseReranker
from ragtune.embedders.sentence_transformer import SentenceTransformerEmbedder
from ragtune.embedders.tfidf import TfidfEmbedder
from ragtune.llm.client import LLMClient
from ragtune.llm.prompts import PromptLibrary
from ragtune.rerankers.function import FunctionReranker
from ragtune.rerankers.http.reranker import HttpReranker
from ragtune.rerankers.llm.listwise import LLMListwiseReranker
from ragtune.rerankers.llm.pointwise import LLMPointwiseReranker
from ragtune.rerankers.llm.setwise import LLMSetwiseReranker
from ragtune.rerankers.models.bi_encoder import BiEncoderReranker
from ragtune.rerankers.models.cross_encoder import CrossEncoderReranker
from ragtune.rerankers.noop import NoOpReranker
from ragtune.rerankers.ordering import OrderingReranker
from ragtune.rerankers.replay import ReplayReranker
from ragtune.rerankers.simulated import SimulatedReranker
from ragtune.testing import ComparingRerankerContract, RerankerContract

Factory = Callable[[pytest.FixtureRequest], BaseReranker]


def _value(request: pytest.FixtureRequest, name: str) -> str:
    return str(request.getfixturevalue(name))


def _shared_words(query: str, texts: list[str]) -> list[float]:
    words = set(query.split())
    return [len(words & set(text.split())) / len(words) for text in texts]


def _ordered(query: str, texts: list[str]) -> list[int]:
    shared = _shared_words(query, texts)
    return sorted(range(len(texts)), key=lambda i: -shared[i])


def _table(request: pytest.FixtureRequest) -> str:
    """A score table of the contract's one query id."""
    file = request.getfixturevalue("tmp_path") / "scores.run"
    ids = request.getfixturevalue("corpus").doc_ids
    lines = [f"q1 Q0 {doc_id} {i} {1.0 - i / 100} recorded\n" for i, doc_id in enumerate(ids, start=1)]
    file.write_text("".join(lines), encoding="utf-8")
    return str(file)


def _asking(request: pytest.FixtureRequest) -> tuple[LLMClient, PromptLibrary]:
    """A model on a server of this machine, with prices, and the shipped prompts."""
    prices = {"test": {"prompt": 0.001, "completion": 0.002}}
    client = LLMClient(model="test", base_url=request.getfixturevalue("llm_server").url, mode="live", prices=prices)
    request.addfinalizer(client.close)
    return client, PromptLibrary()


def _over_http(request: pytest.FixtureRequest, dialect: str, **options: Any) -> HttpReranker:
    """A rerank server of this machine."""
    url = request.getfixturevalue("llm_server").rerank_url(dialect)
    reranker = HttpReranker(url, "test", dialect, usd_per_search_unit=0.002, **options)
    request.addfinalizer(reranker.close)
    return reranker


RERANKERS: dict[str, Factory] = {
    "noop": lambda request: NoOpReranker(),
    "cross_encoder": lambda request: CrossEncoderReranker(
        _value(request, "tiny_cross_encoder"), max_length=64, batch_size=4, device="cpu", cache_dir=None
    ),
    "cross_encoder_cached": lambda request: CrossEncoderReranker(
        _value(request, "tiny_cross_encoder"), max_length=64, device="cpu"
    ),
    "bi_encoder": lambda request: BiEncoderReranker(
        SentenceTransformerEmbedder(_value(request, "minilm"), device="cpu"), batch_size=4, cache_dir=None
    ),
    "replay": lambda request: ReplayReranker(_table(request), scale="identity"),
    "bi_encoder_tfidf": lambda request: BiEncoderReranker(
        TfidfEmbedder(request.getfixturevalue("corpus")), cache_dir=None
    ),
    "llm_pointwise": lambda request: LLMPointwiseReranker(*_asking(request)),
    "function": lambda request: FunctionReranker(_shared_words, usd_per_doc=0.001),
    "http": lambda request: _over_http(request, "cohere", batch_size=4, cache_dir=None),
    "http_cached": lambda request: _over_http(request, "tei"),
}

COMPARING: dict[str, Factory] = {
    "simulated": lambda request: SimulatedReranker(_table(request), scale="identity", noise=0.3, position_bias=0.3),
    "llm_listwise": lambda request: LLMListwiseReranker(*_asking(request), window=5, step=2),
    "ordering": lambda request: OrderingReranker(_ordered, usd_per_call=0.001),
    "llm_setwise": lambda request: LLMSetwiseReranker(*_asking(request), set_size=3, top_k=4),
}


class TestRerankers(RerankerContract):
    @pytest.fixture(autouse=True, params=RERANKERS)
    def chosen(self, request: pytest.FixtureRequest) -> None:
        self.request = request

    def make(self) -> BaseReranker:
        return RERANKERS[self.request.param](self.request)


class TestComparingRerankers(ComparingRerankerContract):
    @pytest.fixture(autouse=True, params=COMPARING)
    def chosen(self, request: pytest.FixtureRequest) -> None:
        self.request = request

    def make(self) -> BaseReranker:
        return COMPARING[self.request.param](self.request)
