"""Every retriever keeps the contract."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
from postgres_server import fresh_dsn

from experiments.prepare.ingest import ingest
from ragtune.canonical.policies import ChunkPolicy
from ragtune.canonical.retrievers.postgres import PostgresRetriever
from ragtune.canonical.store.database import PostgresDatabase
from ragtune.core.interfaces import BaseRetriever
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
from ragtune.superprompt.retriever import SuperPromptRetriever
from ragtune.testing import RetrieverContract

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


class TestRetrievers(RetrieverContract):
    @pytest.fixture(autouse=True, params=RETRIEVERS)
    def chosen(self, request: pytest.FixtureRequest) -> None:
        self.request = request

    def make(self) -> BaseRetriever:
        return RETRIEVERS[self.request.param](self.corpus, self.request)
