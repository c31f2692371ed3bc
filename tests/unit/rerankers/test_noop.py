from __future__ import annotations

from collections.abc import Callable

from ragtune.core.pool.items import PoolItem
from ragtune.core.request.context import RAGtuneContext
from ragtune.rerankers.noop import NoOpReranker

MakeContext = Callable[..., RAGtuneContext]


def test_every_document_keeps_its_score_clipped_to_the_unit_interval(make_context: MakeContext) -> None:
    items = [
        PoolItem(doc_id="estimated", priority_value=0.4, sources={"bm25": 9.0}),
        PoolItem(doc_id="first stage only", sources={"bm25": 9.0}),
        PoolItem(doc_id="negative", sources={"log p": -2.0}),
    ]
    scores = NoOpReranker().rerank(items, make_context("any"), "default")
    assert scores == {"estimated": 0.4, "first stage only": 1.0, "negative": 0.0}


def test_never_forces_a_replay_onto_real_time() -> None:
    assert NoOpReranker().is_recorded
