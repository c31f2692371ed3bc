"""What every reranker promises (``BaseReranker``)."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from experiments.config.paths import CONF
from ragtune.core.interfaces import BaseReranker
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.context import CostMeter, RAGtuneContext
from ragtune.data.corpus import Corpus
from ragtune.embedders.sentence_transformer import SentenceTransformerEmbedder
from ragtune.embedders.tfidf import TfidfEmbedder
from ragtune.llm.client import LLMClient
from ragtune.llm.prompts import PromptLibrary
from ragtune.rerankers.bi_encoder import BiEncoderReranker
from ragtune.rerankers.cross_encoder import CrossEncoderReranker
from ragtune.rerankers.llm_listwise import LLMListwiseReranker
from ragtune.rerankers.llm_pointwise import LLMPointwiseReranker
from ragtune.rerankers.llm_setwise import LLMSetwiseReranker
from ragtune.rerankers.noop import NoOpReranker
from ragtune.rerankers.replay import ReplayReranker

MakeContext = Callable[..., RAGtuneContext]
Factory = Callable[[pytest.FixtureRequest], BaseReranker]
QUERY = "what lowers blood pressure"


def _value(request: pytest.FixtureRequest, name: str) -> str:
    return str(request.getfixturevalue(name))


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
    return client, PromptLibrary(CONF / "prompts.yaml")


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
    "llm_listwise": lambda request: LLMListwiseReranker(*_asking(request), window=5, step=2),
    "llm_setwise": lambda request: LLMSetwiseReranker(*_asking(request), set_size=3, top_k=4),
}

BY_COMPARISON = ("llm_listwise", "llm_setwise")
"""They score a document by its rank in the batch."""

TOLERANCE = 1e-5
"""Padding makes the last bits of float32 depend on the batch; rounding to about 1e-6 can fall either way."""


@pytest.fixture(params=RERANKERS)
def reranker(request: pytest.FixtureRequest) -> BaseReranker:
    return RERANKERS[request.param](request)


def test_scores_the_given_documents_and_no_others(
    reranker: BaseReranker, items: list[PoolItem], make_context: MakeContext
) -> None:
    batch = items[2:9]
    scores = reranker.rerank(batch, make_context(QUERY), "default")
    assert set(scores) <= {item.doc_id for item in batch}
    assert scores


def test_scores_are_calibrated_to_the_unit_interval(
    reranker: BaseReranker, items: list[PoolItem], make_context: MakeContext
) -> None:
    for score in reranker.rerank(items, make_context(QUERY), "default").values():
        assert isinstance(score, float)
        assert math.isfinite(score)
        assert 0.0 <= score <= 1.0


def test_is_deterministic(reranker: BaseReranker, items: list[PoolItem], make_context: MakeContext) -> None:
    first = reranker.rerank(items, make_context(QUERY), "default")
    assert reranker.rerank(items, make_context(QUERY), "default") == first
    assert list(first) == [item.doc_id for item in items if item.doc_id in first]


@pytest.mark.parametrize("reranker", [name for name in RERANKERS if name not in BY_COMPARISON], indirect=True)
def test_a_score_does_not_depend_on_the_rest_of_the_batch(
    reranker: BaseReranker, items: list[PoolItem], make_context: MakeContext
) -> None:
    together = reranker.rerank(items, make_context(QUERY), "default")
    for item in items:
        alone = reranker.rerank([item], make_context(QUERY), "default")
        assert alone[item.doc_id] == pytest.approx(together[item.doc_id], abs=TOLERANCE)


@pytest.mark.parametrize("reranker", BY_COMPARISON, indirect=True)
def test_where_documents_are_compared_the_best_of_a_batch_scores_a_half_and_no_two_score_alike(
    reranker: BaseReranker, items: list[PoolItem], make_context: MakeContext
) -> None:
    scores = reranker.rerank(items, make_context(QUERY), "default")
    assert sorted(scores.values(), reverse=True) == [1 / (1 + rank) for rank in range(1, len(items) + 1)]


def test_a_score_does_not_depend_on_the_order_of_the_batch(
    reranker: BaseReranker, items: list[PoolItem], make_context: MakeContext
) -> None:
    forward = reranker.rerank(items, make_context(QUERY), "default")
    assert reranker.rerank(items[::-1], make_context(QUERY), "default") == forward


def test_an_empty_batch_has_no_scores(reranker: BaseReranker, make_context: MakeContext) -> None:
    assert reranker.rerank([], make_context(QUERY), "default") == {}


def test_the_price_grows_with_the_batch_and_counts_its_documents(
    reranker: BaseReranker, items: list[PoolItem], make_context: MakeContext
) -> None:
    one = reranker.expected_cost(items[:1], make_context(QUERY))
    five = reranker.expected_cost(items[:5], make_context(QUERY))
    assert (one.docs, five.docs) == (1, 5)
    assert five.calls >= one.calls >= 0
    assert five.tokens >= one.tokens >= 0
    assert five.latency_ms >= one.latency_ms


def test_asking_the_price_pays_nothing(
    reranker: BaseReranker, items: list[PoolItem], make_context: MakeContext
) -> None:
    context = make_context(QUERY)
    assert reranker.expected_cost(items, context) == reranker.expected_cost(items, context)
    assert context.meter.actual == CostMeter().actual


def test_never_pays_for_more_than_it_was_given(
    reranker: BaseReranker, items: list[PoolItem], make_context: MakeContext
) -> None:
    context = make_context(QUERY)
    reranker.rerank(items[:5], context, "default")
    assert context.meter.actual.docs <= 5
    assert context.meter.actual.tokens <= reranker.expected_cost(items[:5], context).tokens


def test_a_document_without_text_is_scored_too(
    reranker: BaseReranker, corpus: Corpus, items: list[PoolItem], make_context: MakeContext
) -> None:
    blank = [item for item in items if not item.content]
    assert blank
    assert set(reranker.rerank(blank, make_context(QUERY), "default")) == {item.doc_id for item in blank}
