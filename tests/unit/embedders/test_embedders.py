"""Vectors of texts."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import issparse

import ragtune.embedders.tfidf as tfidf
from ragtune.core.errors import ConfigError
from ragtune.core.pool.items import PoolItem
from ragtune.data.corpus import Corpus, Document
from ragtune.data.text import terms
from ragtune.embedders.candidates import CandidateVectors
from ragtune.embedders.dense_vectors import DenseVectors
from ragtune.embedders.hashing import HashingEmbedder
from ragtune.embedders.openai_compatible import OpenAICompatibleEmbedder
from ragtune.embedders.sentence_transformer import SentenceTransformerEmbedder
from ragtune.embedders.tfidf import TfidfEmbedder
from ragtune.llm.client import LLMClient


def test_golden() -> None:
    """Pinned: collections hold these vectors, and conformance compares them across machines."""
    vector = HashingEmbedder(dims=8).embed(["heart blood pressure salt"])[0]
    assert vector.tolist() == [0.0, -0.8164966106414795, -0.40824830532073975, 0.0, 0.0, 0.40824830532073975, 0.0, 0.0]


@pytest.mark.parametrize("text", ["", " ", "?", "of the", "\x00", "\ud800", "x"])
def test_a_text_without_terms_is_the_zero_vector(text: str) -> None:
    np.testing.assert_array_equal(HashingEmbedder().embed([text]), np.zeros((1, 256)))


def make(server: Any, dims: int | None = None) -> OpenAICompatibleEmbedder:
    return OpenAICompatibleEmbedder(LLMClient(model="tiny", base_url=server.url, mode="live"), dims)


def test_blank_texts_are_not_sent_and_have_zero_rows(llm_server: Any) -> None:
    vectors = make(llm_server).embed(["tea", " \n", "", "honey"])
    assert [request.body["input"] for request in llm_server.requests] == [["tea", "honey"]]
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), [1, 0, 0, 1], atol=1e-6)


def test_the_width_is_asked_for_once_where_no_text_tells_it(llm_server: Any) -> None:
    embedder = make(llm_server)
    assert embedder.embed([]).shape == embedder.embed([""])[:0].shape == (0, 16)
    assert len(llm_server.requests) == 1


def test_a_given_width_needs_no_request_and_is_held_to(llm_server: Any) -> None:
    assert make(llm_server, dims=8).embed([""]).shape == (1, 8)
    assert llm_server.requests == []
    with pytest.raises(ConfigError, match=r"embedder dims=8: tiny@.* gives vectors of length 16"):
        make(llm_server, dims=8).embed(["tea"])


def test_preparing_opens_a_connection_and_sends_nothing(llm_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    embedder = make(llm_server)
    embedder.prepare()
    assert llm_server.requests == []
    with pytest.raises(ConfigError, match="OPENAI_API_KEY is not set"):
        OpenAICompatibleEmbedder(LLMClient(model="tiny", mode="live")).prepare()


def test_travels_to_another_process(llm_server: Any) -> None:
    embedder = make(llm_server)
    before = embedder.embed(["tea"])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(embedder)).embed(["tea"]), before)


def test_the_model_is_loaded_on_first_use(minilm: str) -> None:
    embedder = SentenceTransformerEmbedder(minilm, device="cpu")
    assert embedder._loaded is None
    assert embedder.embed(["one", "two"]).shape == (2, 384)
    assert embedder._loaded is not None


def test_max_length_cuts_texts(minilm: str) -> None:
    short = SentenceTransformerEmbedder(minilm, max_length=6, device="cpu")
    same_start = short.embed(["one two three four five six", "one two three four and other things"])
    np.testing.assert_allclose(same_start[0], same_start[1], atol=1e-6)


def test_travels_to_another_process_without_its_weights(minilm: str) -> None:
    embedder = SentenceTransformerEmbedder(minilm, device="cpu")
    before = embedder.embed(["text"])
    data = pickle.dumps(embedder)
    assert len(data) < 10_000
    np.testing.assert_array_equal(pickle.loads(data).embed(["text"]), before)


def test_rows_are_the_embedders_vectors_in_the_order_asked_for(corpus: Corpus, minilm: str) -> None:
    embedder = SentenceTransformerEmbedder(minilm, device="cpu")
    wanted = [corpus.doc_ids[3], corpus.doc_ids[0]]
    rows = DenseVectors(corpus, embedder).of([PoolItem(doc_id=doc_id) for doc_id in wanted]).toarray()
    expected = embedder.embed([corpus[doc_id].content for doc_id in wanted])
    np.testing.assert_allclose(rows, expected, atol=1e-5)
    assert np.linalg.eigvalsh(rows @ rows.T).min() > -1e-9


TEXTS = (
    "Green teas are brewed, a tea at 80\u2013100 degrees",
    "",
    "the",
    "na\u00efve caf\u00e9 \u03b2-carotene",
    "\u7dd1\u8336\u306e\u5165\u308c\u65b9 tea",
    "tea \u0447\u0430\u0439, \u03a3\u0391\u03a3 and Stra\u00dfe",
    "tea leaves " * 10_000,
)


@pytest.mark.parametrize("texts", [TEXTS, [f"{text} tea" for text in TEXTS]], ids=["new words", "known words"])
def test_columns_and_weights_are_those_of_scikit_learn(texts: Sequence[str]) -> None:
    from sklearn.feature_extraction.text import HashingVectorizer
    from sklearn.preprocessing import normalize

    hashing = HashingVectorizer(analyzer=terms, n_features=2**20, norm=None, alternate_sign=False)
    expected = hashing.transform(texts)
    expected.data = 1.0 + np.log(expected.data)
    expected = normalize(expected)
    found = CandidateVectors().of([PoolItem(str(i), text) for i, text in enumerate(texts)])
    for part in ("indptr", "indices", "data"):
        assert np.array_equal(getattr(found, part), getattr(expected, part))


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Forgets what the process has fitted, before every test and whenever called."""
    forget = tfidf._model_of.cache_clear
    forget()
    yield forget
    forget()


def test_weights_are_sublinear_tf_times_smoothed_idf() -> None:
    corpus = Corpus(Document(id=f"d{i}", text=text) for i, text in enumerate(["apple apple pear", "apple", "plum"]))
    row = TfidfEmbedder(corpus, cache_dir=None).rows(["d0"]).toarray()[0]
    apple, pear = (1 + math.log(2)) * (1 + math.log(4 / 3)), 1 + math.log(4 / 2)
    norm = math.hypot(apple, pear)
    assert sorted(row[row > 0]) == pytest.approx(sorted([apple / norm, pear / norm]))


def test_rows_are_sparse_in_the_order_asked_and_their_products_are_cosines(corpus: Corpus) -> None:
    rows = TfidfEmbedder(corpus).rows(["heart-2", "blank-1", "heart-1", "heart-2"])
    assert issparse(rows)
    assert rows.dtype == np.float64
    kernel = (rows @ rows.T).toarray()
    np.testing.assert_allclose(np.diag(kernel), [1.0, 0.0, 1.0, 1.0])
    assert kernel[0, 3] == pytest.approx(1.0)
    assert 0.0 < kernel[0, 2] < 1.0
    np.testing.assert_array_equal(kernel[1], 0.0)


def test_embedding_a_documents_text_gives_its_row(corpus: Corpus) -> None:
    embedder = TfidfEmbedder(corpus)
    np.testing.assert_allclose(embedder.embed(corpus.contents), embedder.rows(corpus.doc_ids).toarray(), atol=1e-6)


def test_is_fitted_once_a_process_and_once_a_disk(
    corpus: Corpus, private_cache: Path, fresh_process: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = TfidfEmbedder(corpus)
    monkeypatch.setattr(tfidf, "_fit", None)
    assert TfidfEmbedder(corpus)._model is first._model
    fresh_process()
    loaded = TfidfEmbedder(corpus)
    assert loaded._model is not first._model
    assert (loaded.rows(corpus.doc_ids) != first.rows(corpus.doc_ids)).nnz == 0
    np.testing.assert_array_equal(loaded.embed(["blood and honey"]), first.embed(["blood and honey"]))


def test_a_collection_without_terms_is_alike_in_nothing(fresh_process: Callable[[], None]) -> None:
    corpus = Corpus([Document(id="a", text=""), Document(id="b", text="?")])
    for _ in range(2):
        embedder = TfidfEmbedder(corpus)
        rows = embedder.rows(["a", "b"])
        assert (rows @ rows.T).nnz == 0
        assert not embedder.embed(["text"]).any()
        fresh_process()
