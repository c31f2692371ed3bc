from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ragtune.canonical.chunking import chunk
from ragtune.canonical.embedding import dimension, embed
from ragtune.core.errors import InputError
from ragtune.core.interfaces import BaseEmbedder
from ragtune.embedders.hashing import HashingEmbedder

HASHING = HashingEmbedder(dims=8)
Give = Callable[[Sequence[str]], NDArray[np.float32]]


class Embedder(BaseEmbedder):
    """Records its batches, and gives what a function says."""

    def __init__(self, give: Give = HASHING.embed, name: str = "odd") -> None:
        self._give, self._name = give, name
        self.batches: list[list[str]] = []

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.batches.append(list(texts))
        return self._give(texts)

    @property
    def name(self) -> str:
        return self._name


TEXTS = ["salt", "ship", "salt", "rope", "star", "tea"]


def test_rows_are_the_embedders_in_the_order_of_the_texts(tmp_path: Path) -> None:
    expected = HASHING.embed(TEXTS)
    for _ in range(2):
        vectors = embed(TEXTS, Embedder(), batch_size=2, cache_dir=tmp_path)
        assert vectors.dtype == np.float32
        np.testing.assert_array_equal(vectors, expected)
    np.testing.assert_array_equal(embed(TEXTS, Embedder(), cache_dir=None), expected)


def test_chunks_are_embedded_by_their_content(tmp_path: Path) -> None:
    chunks = chunk("salt and ship")
    np.testing.assert_array_equal(embed(chunks, Embedder(), cache_dir=tmp_path), HASHING.embed(["salt and ship"]))


def test_equal_texts_are_embedded_once_in_batches() -> None:
    embedder = Embedder()
    embed(TEXTS, embedder, batch_size=2, cache_dir=None)
    assert embedder.batches == [["salt", "ship"], ["rope", "star"], ["tea"]]


def test_interrupted_work_goes_on_where_it_stopped(tmp_path: Path) -> None:
    def give(texts: Sequence[str]) -> NDArray[np.float32]:
        if texts == ["tea"]:
            raise RuntimeError("interrupted")
        return HASHING.embed(texts)

    with pytest.raises(RuntimeError, match="interrupted"):
        embed(TEXTS, Embedder(give), batch_size=2, cache_dir=tmp_path)
    embedder = Embedder()
    embed(TEXTS, embedder, batch_size=2, cache_dir=tmp_path)
    assert embedder.batches == [["tea"]]


def test_no_texts_give_no_rows_of_the_embedders_width() -> None:
    assert embed([], HASHING).shape == (0, 8)
    assert dimension(HASHING) == 8


@pytest.mark.parametrize(
    ("give", "message"),
    [
        (lambda texts: np.ones((len(texts) + 1, 4), dtype=np.float32), r"shape \(3, 4\) for 2 texts"),
        (lambda texts: np.ones((len(texts), 0), dtype=np.float32), r"shape \(2, 0\)"),
        (lambda texts: np.array([[1.0], [np.nan]], dtype=np.float32), "not finite for the text 'b'"),
    ],
)
def test_unusable_vectors_are_refused_and_not_kept(give: Give, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"embedder 'odd' gave.*{message}"):
        embed(["a", "b"], Embedder(give), cache_dir=tmp_path)
    sound = Embedder(lambda texts: np.ones((len(texts), 1), dtype=np.float32))
    np.testing.assert_array_equal(embed(["a", "b"], sound, cache_dir=tmp_path), [[1.0], [1.0]])


def test_dims_that_change_are_refused_naming_both(tmp_path: Path) -> None:
    def growing(texts: Sequence[str]) -> NDArray[np.float32]:
        return np.ones((len(texts), 1 + len(texts[0])), dtype=np.float32)

    with pytest.raises(InputError, match=r"vectors of \[2, 3\] dims"):
        embed(["a", "bb"], Embedder(growing), batch_size=1, cache_dir=tmp_path)
