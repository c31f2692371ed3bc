"""What live rerankers that score one (query, document) pair at a time share: prices, and a durable score cache."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path

from ragtune.core.arguments import check_count, check_number
from ragtune.core.context import RAGtuneContext
from ragtune.core.diskcache import resolve_cache_dir
from ragtune.core.interfaces import BaseReranker
from ragtune.core.items import PoolItem
from ragtune.core.scorecache import ScoreCache
from ragtune.core.tokens import count_tokens
from ragtune.core.types import CostObject


class PairwiseReranker(BaseReranker):
    """Scores pairs in forward passes of ``batch_size``, keeps every score at once, and reports what it really paid.

    Charged are all documents of a batch, one call, the tokens of every pair and the time and money that the prices
    say; actual cost is what the cache did not have, with the time measured.

    Args:
        batch_size: pairs a forward pass, >= 1.
        max_length: tokens of a pair that are read and charged; None for no limit.
        ms_per_doc, ms_per_call, usd_per_1k_tokens: prices for the expected cost, >= 0; 0 means unknown.
        cache_dir: of the scores; ``auto`` for the platform's cache folder, a folder, or None for no cache.
    """

    def __init__(
        self,
        batch_size: int,
        max_length: int | None,
        ms_per_doc: float,
        ms_per_call: float,
        usd_per_1k_tokens: float,
        cache_dir: str | Path | None,
    ) -> None:
        self.batch_size = check_count("reranker batch_size", batch_size, low=1)
        self.max_length = None if max_length is None else check_count("reranker max_length", max_length, low=1)
        self.ms_per_doc = check_number("reranker ms_per_doc", ms_per_doc, low=0.0)
        self.ms_per_call = check_number("reranker ms_per_call", ms_per_call, low=0.0)
        self.usd_per_1k_tokens = check_number("reranker usd_per_1k_tokens", usd_per_1k_tokens, low=0.0)
        folder = resolve_cache_dir(cache_dir)
        self._cache = None if folder is None else ScoreCache(folder / "scores")

    @abstractmethod
    def _identity(self) -> str:
        """All that a score depends on besides query and text."""

    @abstractmethod
    def _prepare(self, context: RAGtuneContext) -> None:
        """Load the model, so that loading is not measured as scoring."""

    @abstractmethod
    def _score(self, texts: Sequence[str], context: RAGtuneContext) -> list[float]:
        """Calibrated scores in [0, 1] of one forward pass."""

    def rerank(self, items: Sequence[PoolItem], context: RAGtuneContext, strategy: str) -> dict[str, float]:
        if not items:
            return {}
        identity = self._identity() if self._cache else ""
        keys = {item.doc_id: ScoreCache.key(identity, context.query, item.content) for item in items}
        scores = self._cache.get(list(dict.fromkeys(keys.values()))) if self._cache else {}
        unknown = {keys[item.doc_id]: item for item in items if keys[item.doc_id] not in scores}
        scores |= self._score_unknown(unknown, context)
        return {item.doc_id: scores[keys[item.doc_id]] for item in items}

    def expected_cost(self, items: Sequence[PoolItem], context: RAGtuneContext) -> CostObject:
        """All documents, one call, tokens of query and document for each, time and money by the prices."""
        tokens = self._count_tokens(items, context)
        return CostObject.model_construct(
            tokens=tokens,
            docs=len(items),
            calls=1,
            latency_ms=self.ms_per_call + self.ms_per_doc * len(items),
            usd=tokens / 1000.0 * self.usd_per_1k_tokens,
        )

    def _count_tokens(self, items: Sequence[PoolItem], context: RAGtuneContext) -> int:
        query = count_tokens(context.query)
        limit = self.max_length
        pairs = [query + _tokens(item) for item in items]
        return sum(pairs) if limit is None else sum(min(limit, pair) for pair in pairs)

    def _score_unknown(self, unknown: dict[bytes, PoolItem], context: RAGtuneContext) -> dict[bytes, float]:
        if not unknown:
            return {}
        self._prepare(context)
        # Texts of like length share a pass, which wastes the least padding.
        by_length = sorted(unknown.items(), key=lambda entry: (-len(entry[1].content), entry[1].doc_id))
        scores: dict[bytes, float] = {}
        started = time.perf_counter()
        try:
            for start in range(0, len(by_length), self.batch_size):
                chunk = by_length[start : start + self.batch_size]
                values = self._score([item.content for _, item in chunk], context)
                fresh = {key: value for (key, _), value in zip(chunk, values, strict=True)}
                if self._cache:
                    self._cache.put(fresh)
                scores |= fresh
        finally:
            # A pass that fails does not undo the expense of those before it.
            if scores:
                elapsed_ms = (time.perf_counter() - started) * 1000.0
                cost = self.expected_cost([unknown[key] for key in scores], context)
                context.meter.pay(cost.model_copy(update={"latency_ms": elapsed_ms}))
        return scores


def _tokens(item: PoolItem) -> int:
    return item.token_count or count_tokens(item.content)
