from __future__ import annotations

from collections.abc import Callable

from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import ScoredDocument
from ragtune.data.corpus import Corpus
from ragtune.retrievers.in_memory import InMemoryRetriever

MakeContext = Callable[..., RAGtuneContext]
POOL = [ScoredDocument(id=f"doc_{i}", content=f"text {i}", token_count=10) for i in range(100)]


def _ids(found: list[ScoredDocument]) -> list[str]:
    return [doc.id for doc in found]


def test_keeps_the_order_of_unscored_documents(make_context: MakeContext) -> None:
    found = InMemoryRetriever(POOL).retrieve(make_context("text"), 12)
    assert _ids(found) == [f"doc_{i}" for i in range(12)]
    assert [doc.token_count for doc in found] == [10] * 12


def test_finds_substrings_whatever_the_case(make_context: MakeContext) -> None:
    assert _ids(InMemoryRetriever(POOL).retrieve(make_context("TEXT 7"), 5)) == [
        "doc_7",
        *(f"doc_7{i}" for i in range(4)),
    ]


def test_falls_back_to_everything_in_order(make_context: MakeContext) -> None:
    assert _ids(InMemoryRetriever(POOL).retrieve(make_context("no such words"), 3)) == ["doc_0", "doc_1", "doc_2"]


def test_documents_with_scores_keep_them(make_context: MakeContext) -> None:
    scored = [ScoredDocument(id=i, content="text", score=s) for i, s in [("a", 1.0), ("c", 2.0), ("b", 2.0)]]
    found = InMemoryRetriever(scored).retrieve(make_context("text"), 3)
    assert [(doc.id, doc.score) for doc in found] == [("b", 2.0), ("c", 2.0), ("a", 1.0)]


def test_a_document_given_twice_is_returned_once(make_context: MakeContext) -> None:
    assert _ids(InMemoryRetriever([POOL[1], POOL[0], POOL[1]]).retrieve(make_context("text"), 5)) == ["doc_1", "doc_0"]


def test_serves_a_corpus_in_its_order(corpus: Corpus, make_context: MakeContext) -> None:
    assert _ids(InMemoryRetriever(corpus).retrieve(make_context("zzz"), 4)) == corpus.doc_ids[:4]
