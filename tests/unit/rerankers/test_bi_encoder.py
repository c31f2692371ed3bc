from __future__ import annotations

from collections.abc import Callable

import pytest

from ragtune.core.pool.items import PoolItem
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.tokens import count_tokens
from ragtune.core.types import CostObject
from ragtune.data.corpus import Corpus
from ragtune.embedders.sentence_transformer import SentenceTransformerEmbedder
from ragtune.embedders.tfidf import TfidfEmbedder
from ragtune.rerankers.models.bi_encoder import BiEncoderReranker

MakeContext = Callable[..., RAGtuneContext]
QUERY = "what lowers blood pressure"


def test_a_score_is_half_of_one_plus_the_cosine(minilm: str, items: list[PoolItem], make_context: MakeContext) -> None:
    embedder = SentenceTransformerEmbedder(minilm, device="cpu")
    scores = BiEncoderReranker(embedder).rerank(items, make_context(QUERY), "default")
    cosines = embedder.embed([item.content for item in items]) @ embedder.embed([QUERY])[0]
    assert list(scores.values()) == pytest.approx([(1 + float(c)) / 2 for c in cosines], abs=2e-6)
    assert max(scores, key=lambda doc_id: scores[doc_id]).startswith("heart")


def test_the_query_is_charged_once_a_call(corpus: Corpus, items: list[PoolItem], make_context: MakeContext) -> None:
    reranker = BiEncoderReranker(TfidfEmbedder(corpus), max_length=15, ms_per_doc=2.0)
    cost = reranker.expected_cost(items[:3], make_context(QUERY))
    documents = sum(min(15, item.token_count) for item in items[:3])
    assert cost == CostObject(tokens=count_tokens(QUERY) + documents, docs=3, calls=1, latency_ms=6.0)
