"""Feature hashing of stemmed terms."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ragtune.core.arguments import check_count
from ragtune.core.interfaces import BaseEmbedder
from ragtune.data.text import plain_id, plain_terms

_SIGN_BIT = 63


class HashingEmbedder(BaseEmbedder):
    """Signed feature hashing (Weinberger et al., ICML 2009): needs no model, no collection, and no download.

    Component h(t) mod ``dims`` of a text's vector is the sum over its terms t, with repetitions, of the sign that a bit
    of h(t) says; h is BLAKE2b, sums are of integers, so the vectors are the same bits on every platform. The cosine of
    two texts estimates that of their term counts without bias. For tests and baselines: it knows words, not meanings.
    Terms are those of version 1 of the text analysis, so that collections that were made with it stay readable.
    """

    def __init__(self, dims: int = 256) -> None:
        self.dims = check_count("hashing embedder dims", dims, low=1)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        counts = np.zeros((len(texts), self.dims), dtype=np.int64)
        for row, text in zip(counts, texts, strict=True):
            hashes = np.array([_hash(term) for term in plain_terms(text)], dtype=np.uint64)
            signs = 1 - 2 * (hashes >> np.uint64(_SIGN_BIT)).astype(np.int64)
            np.add.at(row, (hashes % np.uint64(self.dims)).astype(np.intp), signs)
        norms = np.sqrt(np.square(counts).sum(axis=1, keepdims=True))
        return np.asarray(counts / np.maximum(norms, 1.0), dtype=np.float32)

    @property
    def name(self) -> str:
        return f"hashing dims={self.dims} blake2b {plain_id()}"


@lru_cache(maxsize=1 << 17)
def _hash(term: str) -> int:
    return int.from_bytes(hashlib.blake2b(term.encode(), digest_size=8).digest(), "big")
