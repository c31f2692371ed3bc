"""``retriever=postgres``: documents out of chunks."""

from collections.abc import Callable
from functools import partial

import pytest
from postgres_server import fresh_dsn

from ragtune.canonical import chunk
from ragtune.canonical.ingestion import ingest
from ragtune.canonical.policies import ChunkPolicy
from ragtune.canonical.retrievers.postgres import PostgresRetriever, collection_name
from ragtune.canonical.sources import source_of
from ragtune.canonical.store.database import PostgresDatabase
from ragtune.core.request.context import RAGtuneContext
from ragtune.data.corpus import Corpus, Document
from ragtune.embedders.hashing import HashingEmbedder

MakeContext = Callable[..., RAGtuneContext]

LONG = " ".join(f"tea number {i}." for i in range(300))


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    texts = {
        "long": LONG,
        "short-b": "tea and honey.",
        "short-a": "honey and tea.",
        "other": "ships at sea.",
        "none": "",
    }
    return Corpus(Document(id=doc_id, title="", text=text) for doc_id, text in texts.items())


@pytest.fixture(scope="module")
def dsn(corpus: Corpus) -> str:
    """The corpus in chunks of a sentence, 300 of them in one document."""
    dsn = fresh_dsn()
    with PostgresDatabase(dsn) as database:
        store = database.open("tea", HashingEmbedder(), create=True)
        policy = ChunkPolicy(method="sentences", max_tokens=4)
        ingest(map(source_of, corpus), store, partial(chunk, policy=policy))
    return dsn


@pytest.fixture
def make(corpus: Corpus, dsn: str) -> Callable[..., PostgresRetriever]:
    return partial(PostgresRetriever, corpus, HashingEmbedder(), "tea", dsn=dsn)


@pytest.mark.parametrize("mode", ["lexical", "vector", "hybrid"])
def test_a_document_of_many_chunks_does_not_crowd_out_the_others(
    make: Callable[..., PostgresRetriever], make_context: MakeContext, mode: str
) -> None:
    found = make(mode=mode, candidate_pool=5).retrieve(make_context("tea number 7"), 3)
    assert [doc.id for doc in found] == ["long", "short-a", "short-b"]


def test_a_corpus_names_its_collection_whatever_the_split(corpus: Corpus) -> None:
    name = collection_name("nfcorpus/test", corpus)
    assert name == collection_name("nfcorpus/dev/every-2", corpus) == f"nfcorpus-{corpus.digest[:8]}"
    other = Corpus([Document(id="1", text="other")])
    assert collection_name("nfcorpus/test", other) != name
    assert collection_name("茶/x", other) == f"corpus-{other.digest[:8]}"
    assert len(collection_name("x" * 100, other)) <= 63
