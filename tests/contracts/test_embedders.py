"""What every embedder promises (``BaseEmbedder``)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ragtune.core.interfaces import BaseEmbedder
from ragtune.data.corpus import Corpus
from ragtune.embedders.hashing import HashingEmbedder
from ragtune.embedders.openai_compatible import OpenAICompatibleEmbedder
from ragtune.embedders.sentence_transformer import SentenceTransformerEmbedder
from ragtune.embedders.tfidf import TfidfEmbedder
from ragtune.llm.client import LLMClient

EMBEDDERS: dict[str, Callable[[pytest.FixtureRequest], BaseEmbedder]] = {
    "openai_compatible": lambda request: OpenAICompatibleEmbedder(
        LLMClient(
            model="tiny",
            base_url=request.getfixturevalue("llm_server").url,
            mode="live",
            embedding_batch=4,
        )
    ),
    "hashing": lambda request: HashingEmbedder(),
    "hashing_small": lambda request: HashingEmbedder(dims=64),
    "sentence_transformer": lambda request: SentenceTransformerEmbedder(
        request.getfixturevalue("minilm"), batch_size=4, device="cpu"
    ),
    "sentence_transformer_short": lambda request: SentenceTransformerEmbedder(
        request.getfixturevalue("minilm"), max_length=8, device="cpu"
    ),
    "tfidf": lambda request: TfidfEmbedder(request.getfixturevalue("corpus")),
    "tfidf_plain": lambda request: TfidfEmbedder(request.getfixturevalue("corpus"), sublinear_tf=False, min_df=2),
}


@pytest.fixture(params=EMBEDDERS)
def embedder(request: pytest.FixtureRequest) -> BaseEmbedder:
    return EMBEDDERS[request.param](request)


def test_gives_one_normalised_float32_row_a_text(embedder: BaseEmbedder, corpus: Corpus) -> None:
    vectors = embedder.embed(corpus.contents)
    assert vectors.dtype == np.float32
    assert vectors.shape[0] == len(corpus)
    norms = np.linalg.norm(vectors, axis=1)
    assert np.all(np.isclose(norms, 1.0, atol=1e-5) | (norms == 0.0))


def test_no_texts_give_no_rows_of_the_same_width(embedder: BaseEmbedder) -> None:
    assert embedder.embed([]).shape == (0, embedder.embed(["tea"]).shape[1])


def test_a_vector_does_not_depend_on_the_rest_of_the_batch(embedder: BaseEmbedder, corpus: Corpus) -> None:
    together = embedder.embed(corpus.contents)
    for row, text in zip(together, corpus.contents, strict=True):
        np.testing.assert_allclose(embedder.embed([text])[0], row, atol=1e-5)


def test_is_deterministic(embedder: BaseEmbedder, corpus: Corpus) -> None:
    np.testing.assert_array_equal(embedder.embed(corpus.contents), embedder.embed(corpus.contents))


def test_like_texts_are_nearer_than_unlike_ones(embedder: BaseEmbedder, corpus: Corpus) -> None:
    query, near, far = embedder.embed(["blood pressure", corpus["heart-3"].content, corpus["ship-1"].content])
    assert query @ near > query @ far


def test_the_name_is_stable_and_tells_settings_apart(request: pytest.FixtureRequest) -> None:
    names = [[make(request).name for make in EMBEDDERS.values()] for _ in range(2)]
    assert names[0] == names[1]
    assert len(set(names[0])) == len(EMBEDDERS)
