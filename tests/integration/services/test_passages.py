"""Long documents in passages, through the rerank API."""

from __future__ import annotations

from rerank_server import ask, serving

from ragtune.facade.passages import Passages, spans
from ragtune.rerankers.function import FunctionReranker
from ragtune.services.rerank import RerankServer

LONG = "Bread is baked daily here. Salt is mined in the hills. Green tea is steamed."


def test_a_server_reads_passages_counts_them_and_names_documents() -> None:
    reranker = FunctionReranker(lambda query, texts: [float("steamed" in text) for text in texts])
    request = {"query": "green tea", "documents": ["bread", "", LONG], "return_documents": True}
    count = 2 + len(spans(LONG, 8))
    with serving(RerankServer(reranker, "m", passages=Passages(8), max_documents=3)) as url:
        full, some = (ask(url, "/v1/rerank", request | more).json() for more in ({}, {"budget": {"docs": 3}}))
    assert full["results"][0]["index"] == 2
    assert full["results"][0]["document"] == {"text": LONG}
    assert sorted(one["index"] for one in full["results"]) == [0, 1, 2]
    assert full["ragtune"]["spent"]["docs"] == count  # beyond max_documents, which limits documents
    start, end = full["ragtune"]["passages"]["2"]
    assert "steamed" in LONG[start:end]
    assert (some["ragtune"]["spent"]["docs"], some["ragtune"]["saved"]["docs"]) == (3, count - 3)
