"""What every retriever promises (``BaseRetriever``)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import pytest
from postgres_server import fresh_dsn

from experiments.prepare.ingest import ingest
from ragtune.canonical.policies import ChunkPolicy
from ragtune.canonical.retrievers.postgres import PostgresRetriever
from ragtune.canonical.store.database import PostgresDatabase
from ragtune.core.interfaces import BaseRetriever
from ragtune.core.request.context import RAGtuneContext
from ragtune.data.corpus import Corpus
from ragtune.embedders.hashing import HashingEmbedder
from ragtune.embedders.sentence_transformer import SentenceTransformerEmbedder
from ragtune.embedders.tfidf import TfidfEmbedder
from ragtune.fusion.concat import ConcatFusion
from ragtune.fusion.rrf import RRFFusion
from ragtune.retrievers.bm25 import BM25Retriever
from ragtune.retrievers.dense import DenseRetriever
from ragtune.retrievers.hybrid import HybridRetriever
from ragtune.retrievers.in_memory import InMemoryRetriever
from ragtune.retrievers.rank_bm25 import RankBM25Retriever
from ragtune.retrievers.runs import RunsRetriever
from ragtune.superprompt.retrievers.superprompt import SuperPromptRetriever

MakeContext = Callable[..., RAGtuneContext]
Factory = Callable[[Corpus, pytest.FixtureRequest], BaseRetriever]


def _minilm(request: pytest.FixtureRequest) -> SentenceTransformerEmbedder:
    return SentenceTransformerEmbedder(request.getfixturevalue("minilm"), device="cpu")


def _recorded(corpus: Corpus, request: pytest.FixtureRequest) -> str:
    """A TREC run for the contract's one query id: every document, ``ship-1`` first."""
    ids = sorted(corpus.doc_ids, key=lambda doc_id: doc_id != "ship-1")
    file = request.getfixturevalue("tmp_path") / "recorded.run"
    lines = [f"q1 Q0 {doc_id} {rank} {1.0 / rank} recorded\n" for rank, doc_id in enumerate(ids, start=1)]
    file.write_text("".join(lines), encoding="utf-8")
    return str(file)


@cache
def _ingested(corpus: Corpus) -> str:
    """A database with the corpus in several chunks a document."""
    dsn = fresh_dsn()
    with PostgresDatabase(dsn) as database:
        ingest(corpus, database.open("corpus", HashingEmbedder(), create=True), ChunkPolicy(max_tokens=8))
    return dsn


def _postgres(mode: str) -> Factory:
    return lambda corpus, request: PostgresRetriever(
        corpus, HashingEmbedder(), "corpus", dsn=_ingested(corpus), mode=mode
    )


RETRIEVERS: dict[str, Factory] = {
    "postgres_lexical": _postgres("lexical"),
    "postgres_vector": _postgres("vector"),
    "postgres_hybrid": _postgres("hybrid"),
    "in_memory": lambda corpus, request: InMemoryRetriever(corpus),
    "in_memory_list": lambda corpus, request: InMemoryRetriever([corpus.scored(i, len(i)) for i in corpus.doc_ids]),
    "bm25": lambda corpus, request: BM25Retriever(corpus),
    "bm25_robertson": lambda corpus, request: BM25Retriever(corpus, k1=0.9, b=0.4, method="robertson"),
    "rank_bm25": lambda corpus, request: RankBM25Retriever(corpus),
    "dense": lambda corpus, request: DenseRetriever(corpus, _minilm(request)),
    "dense_tfidf": lambda corpus, request: DenseRetriever(corpus, TfidfEmbedder(corpus)),
    "hybrid_rrf": lambda corpus, request: HybridRetriever(
        corpus,
        {"bm25": BM25Retriever, "dense": lambda c: DenseRetriever(c, TfidfEmbedder(c))},
        RRFFusion(),
        depth_each=3,
    ),
    "runs": lambda corpus, request: RunsRetriever(corpus, _recorded(corpus, request)),
    "superprompt": lambda corpus, request: SuperPromptRetriever(corpus),
    "superprompt_tfidf": lambda corpus, request: SuperPromptRetriever(corpus, TfidfEmbedder(corpus)),
    "hybrid_concat": lambda corpus, request: HybridRetriever(
        corpus, {"bm25": BM25Retriever, "rank_bm25": RankBM25Retriever}, ConcatFusion()
    ),
}

QUERIES = {
    "known": "how does heart pressure rise",
    "unknown_words": "zzyzx qwrtp",
    "empty": "",
    "stopwords": "the of and",
    "punctuation": "?!",
    "duplicated_text": "knead the loaves",
    "repeated": "honey honey honey tea",
    "unicode": "café ☕ 茶",
}


@pytest.fixture(params=RETRIEVERS)
def retriever(request: pytest.FixtureRequest, corpus: Corpus) -> BaseRetriever:
    return RETRIEVERS[request.param](corpus, request)


@pytest.fixture(params=QUERIES)
def query(request: pytest.FixtureRequest) -> str:
    return QUERIES[request.param]


@pytest.mark.parametrize("top_k", [1, 3, 1000])
def test_returns_at_most_top_k_documents_of_the_corpus_each_once(
    retriever: BaseRetriever, corpus: Corpus, make_context: MakeContext, query: str, top_k: int
) -> None:
    ids = [doc.id for doc in retriever.retrieve(make_context(query), top_k)]
    assert len(ids) <= min(top_k, len(corpus))
    assert len(set(ids)) == len(ids)
    assert all(doc_id in corpus for doc_id in ids)


def test_is_sorted_by_finite_scores(retriever: BaseRetriever, make_context: MakeContext, query: str) -> None:
    scores = [doc.score for doc in retriever.retrieve(make_context(query), 100)]
    assert all(math.isfinite(score) for score in scores)
    assert scores == sorted(scores, reverse=True)


def test_breaks_ties_by_document_id(retriever: BaseRetriever, make_context: MakeContext, query: str) -> None:
    found = [(-doc.score, doc.id) for doc in retriever.retrieve(make_context(query), 100)]
    assert found == sorted(found)


def test_a_smaller_top_k_is_a_prefix(retriever: BaseRetriever, make_context: MakeContext, query: str) -> None:
    many = [(doc.id, doc.score) for doc in retriever.retrieve(make_context(query), 3)]
    few = [(doc.id, doc.score) for doc in retriever.retrieve(make_context(query), 1)]
    assert few == many[:1]


def test_answers_the_same_twice(retriever: BaseRetriever, make_context: MakeContext, query: str) -> None:
    assert retriever.retrieve(make_context(query), 5) == retriever.retrieve(make_context(query), 5)


def test_answers_the_same_when_built_anew(
    request: pytest.FixtureRequest, corpus: Corpus, make_context: MakeContext
) -> None:
    for make in RETRIEVERS.values():
        answers = [make(corpus, request).retrieve(make_context("honey in bread"), 5) for _ in range(2)]
        assert answers[0] == answers[1]


def test_documents_carry_what_the_pool_needs(
    retriever: BaseRetriever, corpus: Corpus, make_context: MakeContext
) -> None:
    found = retriever.retrieve(make_context("heart"), 5)
    assert found
    for doc in found:
        assert doc.content == corpus[doc.id].content
        assert doc.token_count == corpus.scored(doc.id, 0.0).token_count


def test_finds_the_document_that_the_query_is_about(retriever: BaseRetriever, make_context: MakeContext) -> None:
    assert "ship-1" in [doc.id for doc in retriever.retrieve(make_context("bowline"), 1)]
