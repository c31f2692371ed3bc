from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest

from ragtune.core.errors import ConfigError
from ragtune.embedders.hashing import HashingEmbedder


def test_components_are_signed_counts_of_hashed_terms() -> None:
    expected = np.zeros(16)
    for term, count in {"ship": 2, "anchor": 1}.items():
        value = int.from_bytes(hashlib.blake2b(term.encode(), digest_size=8).digest(), "big")
        expected[value % 16] += -count if value >> 63 else count
    expected /= math.sqrt((expected**2).sum())
    vector = HashingEmbedder(dims=16).embed(["The ships and the anchors of a ship"])[0]
    np.testing.assert_array_equal(vector, expected.astype(np.float32))


def test_golden() -> None:
    """Pinned: collections hold these vectors, and conformance compares them across machines."""
    vector = HashingEmbedder(dims=8).embed(["heart blood pressure salt"])[0]
    assert vector.tolist() == [0.0, -0.8164966106414795, -0.40824830532073975, 0.0, 0.0, 0.40824830532073975, 0.0, 0.0]


@pytest.mark.parametrize("text", ["", " ", "?", "of the", "\x00", "\ud800", "x"])
def test_a_text_without_terms_is_the_zero_vector(text: str) -> None:
    np.testing.assert_array_equal(HashingEmbedder().embed([text]), np.zeros((1, 256)))


def test_the_name_tells_dims_apart() -> None:
    assert HashingEmbedder(dims=8).name != HashingEmbedder(dims=16).name


@pytest.mark.parametrize("dims", [0, -1, 1.5, None, True])
def test_bad_dims_are_refused_by_quoting_them(dims: object) -> None:
    with pytest.raises(ConfigError, match=rf"hashing embedder dims={dims!r}: allowed is a whole number >= 1"):
        HashingEmbedder(dims=dims)  # type: ignore[arg-type]
