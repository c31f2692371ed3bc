from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ragtune.core.interfaces import BaseEmbedder
from ragtune.core.request.context import RAGtuneContext
from ragtune.data.corpus import Corpus
from ragtune.embedders.sentence_transformer import SentenceTransformerEmbedder
from ragtune.embedders.tfidf import TfidfEmbedder
from ragtune.fusion.concat import ConcatFusion
from ragtune.retrievers.dense import DenseRetriever
from ragtune.retrievers.hybrid import HybridRetriever

MakeContext = Callable[..., RAGtuneContext]


class Counting(BaseEmbedder):
    """Counts the texts that it passes on."""

    def __init__(self, inner: BaseEmbedder, name: str = "") -> None:
        self.inner = inner
        self.texts = self.preparations = 0
        self._name = name or inner.name

    def prepare(self) -> None:
        self.preparations += 1
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


def test_equal_texts_score_equally_whatever_their_batch(corpus: Corpus, minilm: str, make_context: MakeContext) -> None:
    embedder = SentenceTransformerEmbedder(minilm, device="cpu", batch_size=2)
    found = DenseRetriever(corpus, embedder).retrieve(make_context("knead the loaves"), 2)
    assert [doc.id for doc in found] == ["bread-1", "bread-2"]
    assert found[0].score == found[1].score


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


def test_what_was_prepared_embeds_the_query_alone(
    corpus: Corpus, embedder: Counting, make_context: MakeContext
) -> None:
    retriever = HybridRetriever(corpus, {"dense": partial(DenseRetriever, embedder=embedder)}, ConcatFusion())
    retriever.prepare()
    retriever.prepare()
    assert (embedder.texts, embedder.preparations) == (len(corpus), 2)
    retriever.retrieve(make_context("tea"), 3)
    assert embedder.texts == len(corpus) + 1


def test_another_embedder_gets_vectors_of_its_own(
    corpus: Corpus, embedder: Counting, make_context: MakeContext
) -> None:
    DenseRetriever(corpus, embedder).retrieve(make_context("tea"), 3)
    other = Counting(embedder.inner, name="other")
    DenseRetriever(corpus, other).retrieve(make_context("tea"), 3)
    assert other.texts == len(corpus) + 1


def test_corrupt_vectors_are_made_anew_and_said_so(
    corpus: Corpus,
    embedder: Counting,
    private_cache: Path,
    make_context: MakeContext,
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = DenseRetriever(corpus, embedder).retrieve(make_context("tea"), 3)
    for file in private_cache.rglob("embeddings.npy"):
        file.write_bytes(file.read_bytes()[:-100])
    assert DenseRetriever(corpus, embedder).retrieve(make_context("tea"), 3) == before
    assert "corrupt cache entry" in caplog.text


def test_a_query_of_which_the_embedder_knows_nothing_finds_nothing(
    corpus: Corpus, embedder: Counting, make_context: MakeContext
) -> None:
    assert DenseRetriever(corpus, embedder).retrieve(make_context("zzyzx"), 5) == []
