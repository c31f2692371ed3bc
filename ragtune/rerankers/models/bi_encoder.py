"""Bi-encoder reranking."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ragtune.core.arguments import check_flag
from ragtune.core.interfaces import BaseEmbedder
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.tokens import count_tokens
from ragtune.data.caches.diskcache import AUTO
from ragtune.rerankers._cached import Pair
from ragtune.rerankers.models.pairwise import PairwiseReranker

_DECIMALS = 6


class BiEncoderReranker(PairwiseReranker):
    """(1 + cosine) / 2 of query and document vectors (Reimers and Gurevych 2019)."""

    def __init__(
        self,
        embedder: BaseEmbedder,
        batch_size: int = 32,
        max_length: int | None = None,
        usd_per_1k_tokens: float = 0.0,
        cache_dir: str | Path | None = AUTO,
        preload: bool = True,
    ) -> None:
        super().__init__(batch_size, max_length, usd_per_1k_tokens, cache_dir)
        self.preload = check_flag("reranker preload", preload)
        self._embedder = embedder
        self.model = embedder.name

    def _identity(self) -> str:
        return f"bi_encoder {self._embedder.name}"

    def _make_ready(self) -> None:
        self._embedder.prepare()

    def _count_tokens(self, items: Sequence[PoolItem], context: RAGtuneContext) -> int:
        """Document tokens, and the query's once a call."""
        lengths = [item.token_count or count_tokens(item.content) for item in items]
        limit = self.max_length
        return count_tokens(context.query) + sum(n if limit is None else min(limit, n) for n in lengths)

    def _score(self, pairs: Sequence[Pair]) -> list[float]:
        texts = self._embedder.embed([pair.item.content for pair in pairs])
        queries = np.stack([self._query(pair.context) for pair in pairs])
        cosines = np.clip(np.einsum("ij,ij->i", texts, queries).astype(np.float64), -1.0, 1.0)
        return [float(value) for value in (1.0 + np.round(cosines, _DECIMALS)) / 2.0]

    def _query(self, context: RAGtuneContext) -> NDArray[np.float32]:
        return context.remember(self, lambda: self._embedder.embed([context.query])[0])
