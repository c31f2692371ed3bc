from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import issparse

import ragtune.embedders.tfidf as tfidf
from ragtune.core.errors import DatasetError
from ragtune.data.corpus import Corpus, Document
from ragtune.embedders.tfidf import TfidfEmbedder


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


def test_an_unknown_document_is_named(corpus: Corpus) -> None:
    with pytest.raises(DatasetError, match="'nobody'"):
        TfidfEmbedder(corpus).rows(["nobody"])


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
