"""What every embedder promises (:class:`~ragtune.core.interfaces.BaseEmbedder`)."""

from __future__ import annotations

import numpy as np
import pytest

from ragtune.core.interfaces import BaseEmbedder
from ragtune.testing.collection import small_corpus
from ragtune.testing.files import require_declared_files


class EmbedderContract:
    """Derive from it and define :meth:`make`."""

    def make(self) -> BaseEmbedder:
        """A new embedder; where it must be fitted, to :func:`~ragtune.testing.small_corpus`."""
        raise NotImplementedError

    @pytest.fixture
    def embedder(self) -> BaseEmbedder:
        return self.make()

    def test_files_that_it_is_given_are_declared(self) -> None:
        require_declared_files(self.make)

    def test_gives_one_normalised_float32_row_a_text(self, embedder: BaseEmbedder) -> None:
        vectors = embedder.embed(small_corpus().contents)
        assert vectors.dtype == np.float32
        assert vectors.shape[0] == len(small_corpus())
        norms = np.linalg.norm(vectors, axis=1)
        assert np.all(np.isclose(norms, 1.0, atol=1e-5) | (norms == 0.0))

    def test_no_texts_give_no_rows_of_the_same_width(self, embedder: BaseEmbedder) -> None:
        assert embedder.embed([]).shape == (0, embedder.embed(["tea"]).shape[1])

    def test_a_vector_does_not_depend_on_the_rest_of_the_batch(self, embedder: BaseEmbedder) -> None:
        texts = small_corpus().contents
        for row, text in zip(embedder.embed(texts), texts, strict=True):
            np.testing.assert_allclose(embedder.embed([text])[0], row, atol=1e-5)

    def test_is_deterministic(self, embedder: BaseEmbedder) -> None:
        texts = small_corpus().contents
        expected = embedder.embed(texts)
        np.testing.assert_array_equal(embedder.embed(texts), expected)
        np.testing.assert_array_equal(self.make().embed(texts), expected, "caches keep vectors by the embedder's name")

    def test_like_texts_are_nearer_than_unlike_ones(self, embedder: BaseEmbedder) -> None:
        corpus = small_corpus()
        query, near, far = embedder.embed(["blood pressure", corpus["heart-3"].content, corpus["ship-1"].content])
        assert query @ near > query @ far

    def test_the_name_is_stable(self, embedder: BaseEmbedder) -> None:
        assert embedder.name
        assert embedder.name == self.make().name
