from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ragtune.core.errors import DatasetError
from ragtune.data.corpus import Corpus
from ragtune.embedders.dense_vectors import DenseVectors
from ragtune.embedders.sentence_transformer import SentenceTransformerEmbedder


def test_rows_are_the_embedders_vectors_in_the_order_asked_for(corpus: Corpus, minilm: str) -> None:
    embedder = SentenceTransformerEmbedder(minilm, device="cpu")
    wanted = [corpus.doc_ids[3], corpus.doc_ids[0]]
    rows = DenseVectors(corpus, embedder).rows(wanted).toarray()
    expected = embedder.embed([corpus[doc_id].content for doc_id in wanted])
    np.testing.assert_allclose(rows, expected, atol=1e-5)
    assert np.linalg.eigvalsh(rows @ rows.T).min() > -1e-9


def test_vectors_are_made_once_and_kept_on_disk(corpus: Corpus, minilm: str, tmp_path: Path) -> None:
    embedder = SentenceTransformerEmbedder(minilm, device="cpu")
    first = DenseVectors(corpus, embedder, tmp_path).rows(corpus.doc_ids).toarray()

    class Silent(SentenceTransformerEmbedder):
        def embed(self, texts):
            raise AssertionError("the vectors were to come from the disk")

    again = DenseVectors(corpus, Silent(minilm, device="cpu"), tmp_path).rows(corpus.doc_ids).toarray()
    np.testing.assert_array_equal(first, again)


def test_an_unknown_document_is_named(corpus: Corpus, minilm: str) -> None:
    with pytest.raises(DatasetError, match="'nowhere'"):
        DenseVectors(corpus, SentenceTransformerEmbedder(minilm, device="cpu")).rows(["nowhere"])
