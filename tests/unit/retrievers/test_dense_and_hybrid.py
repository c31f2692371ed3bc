"""Retrieval by vectors, and several retrievers together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from ragtune.core.interfaces import BaseEmbedder, BaseRetriever
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import ScoredDocument
from ragtune.data.corpus import Corpus
from ragtune.embedders.sentence_transformer import SentenceTransformerEmbedder
from ragtune.embedders.tfidf import TfidfEmbedder
from ragtune.fusion.concat import ConcatFusion
from ragtune.fusion.rrf import RRFFusion
from ragtune.retrievers.bm25 import BM25Retriever
from ragtune.retrievers.dense import DenseRetriever
from ragtune.retrievers.hybrid import HybridRetriever

MakeContext = Callable[..., RAGtuneContext]


class Counting(BaseEmbedder):
    """Counts the texts that it passes on."""

    def __init__(self, inner: BaseEmbedder, name: str = "") -> None:
        self.inner = inner
        self.texts = 0
        self._name = name or inner.name

    def prepare(self) -> None:
        self.inner.prepare()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.texts += len(texts)
        return self.inner.embed(texts)

    @property
    def name(self) -> str:
        return self._name


@pytest.fixture
def embedder(corpus: Corpus) -> Counting:
    return Counting(TfidfEmbedder(corpus))


def test_is_exact(corpus: Corpus, minilm: str, make_context: MakeContext) -> None:
    embedder = SentenceTransformerEmbedder(minilm, device="cpu")
    found = DenseRetriever(corpus, embedder).retrieve(make_context("vital organ circulating fluid"), len(corpus))
    query, documents = embedder.embed(["vital organ circulating fluid"])[0], embedder.embed(corpus.contents)
    cosines = dict(zip(corpus.doc_ids, (documents @ query).tolist(), strict=True))
    assert {doc.id: doc.score for doc in found} == pytest.approx(cosines, abs=2e-6)
    assert found[0].id == "heart-1"


def test_documents_are_embedded_once_and_only_when_needed(
    corpus: Corpus, embedder: Counting, make_context: MakeContext
) -> None:
    retriever = DenseRetriever(corpus, embedder)
    assert embedder.texts == 0
    before = retriever.retrieve(make_context("tea"), 3)
    assert embedder.texts == len(corpus) + 1
    again = DenseRetriever(corpus, embedder)
    assert again.retrieve(make_context("tea"), 3) == before
    assert embedder.texts == len(corpus) + 2
    assert isinstance(again._documents.matrix, np.memmap)


MakeContext = Callable[..., RAGtuneContext]


class Fixed(BaseRetriever):
    """Returns the same list whatever is asked, and remembers how deep."""

    def __init__(self, corpus: Corpus, ids: list[str]) -> None:
        self.documents = [corpus.scored(doc_id, 1.0 / rank) for rank, doc_id in enumerate(ids, start=1)]
        self.asked: list[int] = []

    def retrieve(self, context: RAGtuneContext, top_k: int) -> list[ScoredDocument]:
        self.asked.append(top_k)
        return self.documents[:top_k]


def test_provenance_names_the_retrievers_that_found_a_document(corpus: Corpus, make_context: MakeContext) -> None:
    retriever = HybridRetriever(
        corpus, {"bm25": BM25Retriever, "fixed": lambda c: Fixed(c, ["ship-2", "tea-1"])}, RRFFusion()
    )
    found = {doc.id: doc for doc in retriever.retrieve(make_context("ships"), 10)}
    assert set(found) == {"ship-1", "ship-2", "tea-1"}
    assert set(found["ship-2"].sources) == {"bm25", "fixed"}
    assert found["tea-1"].sources == {"fixed": 0.5}


def test_lists_are_taken_as_deep_as_set_or_as_asked(corpus: Corpus, make_context: MakeContext) -> None:
    member = Fixed(corpus, corpus.doc_ids)
    retriever = HybridRetriever(corpus, {"only": lambda c: member}, ConcatFusion(), depth_each=5)
    assert len(retriever.retrieve(make_context("any"), 2)) == 2
    assert len(retriever.retrieve(make_context("any"), 8)) == 8
    assert member.asked == [5, 8]
