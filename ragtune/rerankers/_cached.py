"""Base of live rerankers that score one (query, document) pair at a time: a durable cache of scores and times."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from ragtune.core.arguments import check_count, check_number
from ragtune.core.interfaces import BaseReranker
from ragtune.core.pool.items import PoolItem, RerankBatch, facts_of, ids_of, lengths_of, some_of
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.tokens import count_tokens
from ragtune.core.types import CostObject
from ragtune.core.units import SOMETIMES_TOLD
from ragtune.data.caches.diskcache import resolve_cache_dir
from ragtune.data.caches.sqlitecache import SqliteCache

Key = Any
"""What a pair is known by: a digest where scores are cached, else query and text."""

Pairs = Mapping[Key, int]
"""Tokens of pairs of a query and a document, by their keys; equal texts are one pair."""


@dataclass
class Known:
    """Figures of pairs, by key."""

    scores: dict[Key, float] = field(default_factory=dict)
    times: dict[Key, float] = field(default_factory=dict)
    billed_tokens: dict[Key, float] = field(default_factory=dict)
    billed_docs: dict[Key, float] = field(default_factory=dict)
    failed: list[CostObject] = field(default_factory=list)


class Pair(NamedTuple):
    """A document by its place among items, with its text and the tokens of the pair, and its request."""

    text: str
    tokens: int
    context: RAGtuneContext
    items: Sequence[PoolItem]
    place: int

    @property
    def item(self) -> PoolItem:
        """The document, made now where the items are columns."""
        return self.items[self.place]


@dataclass
class _Asked:
    """A batch, the keys of its documents by id, its pairs, and the places of those that it pays for."""

    batch: RerankBatch
    keys: dict[str, Key]
    pairs: Pairs
    paid: dict[Key, int] = field(default_factory=dict)


class CachedReranker(BaseReranker):
    """Caches every score; a batch is charged what its scores cost when made, and pays for new ones only."""

    _cached: Mapping[str, tuple[str, str]] = {"scores": ("score", "score"), "times": ("time", "ms")}
    """The figures of :class:`Known` that are cached, scores first: noun and column of each cache."""

    observe: Callable[[int, int], None] | None = None
    """Hears of each look into the cache how many scores were in it, and how many were not."""

    def __init__(
        self,
        batch_size: int,
        max_length: int | None,
        usd_per_1k_tokens: float,
        cache_dir: str | Path | None,
    ) -> None:
        self.batch_size = check_count("reranker batch_size", batch_size, low=1)
        self.max_length = None if max_length is None else check_count("reranker max_length", max_length, low=1)
        self.usd_per_1k_tokens = check_number("reranker usd_per_1k_tokens", usd_per_1k_tokens, low=0.0)
        unpriced = frozenset({"latency_ms", "usd", *SOMETIMES_TOLD})  # tokens are counted
        self.facts = replace(self.facts, unpriced=unpriced, unpaid=self._unpaid)
        self._folder = resolve_cache_dir(cache_dir)
        self._caches: dict[str, SqliteCache[float]] = {}
        if self._folder is not None:
            for name, (noun, column) in self._cached.items():
                file = self._folder / "scores" / f"{noun}s.sqlite"
                self._caches[name] = SqliteCache(file, noun, f"{column} REAL NOT NULL")

    @abstractmethod
    def _identity(self) -> str:
        """Everything that a score depends on besides query and text."""

    @abstractmethod
    def _bill(self, items: Sequence[PoolItem], pairs: Pairs, known: Known, context: RAGtuneContext) -> CostObject:
        """The cost of the documents of these pairs."""

    def expire_after(self, seconds: float) -> None:
        """Forget cached scores that are older; call it before the first use."""
        for cache in self._caches.values():
            cache.ttl_s = seconds

    @abstractmethod
    def _score_unknown(self, unknown: Mapping[Key, Pair], known: Known) -> None:
        """Score pairs that the cache lacks, keep their scores, and add them to ``known``."""

    def _unpaid(self, items: Sequence[PoolItem], context: RAGtuneContext) -> Sequence[PoolItem]:
        """Documents whose pair is not in the cache; of several with one text, the first."""
        keys = self._keys(items, context)
        first = {keys[item.doc_id]: item for item in reversed(items)}
        known = self._caches["scores"].get(list(first)) if self._caches else {}
        return [item for item in items if keys[item.doc_id] not in known and first[keys[item.doc_id]] is item]

    def _keys(self, items: Sequence[PoolItem], context: RAGtuneContext) -> dict[str, Key]:
        texts = {doc_id: fact.content for doc_id, fact in zip(ids_of(items), facts_of(items), strict=True)}
        if not self._caches:  # nothing outlives the batch, so the pair itself will do
            return {doc_id: (context.query, text) for doc_id, text in texts.items()}
        with context.tracker.clock.paused():
            identity = self._identity()
        return {doc_id: SqliteCache.key(identity, context.query, text) for doc_id, text in texts.items()}

    def _open_caches(self) -> None:
        for cache in self._caches.values():
            cache.check()

    def _recall(self, keys: Sequence[Key]) -> Known:
        known = Known()
        for name, cache in self._caches.items():
            found = cache.get([key for key in keys if name == "scores" or key in known.scores])
            getattr(known, name).update(found)
        if self._caches and self.observe is not None:
            self.observe(len(known.scores), len(keys) - len(known.scores))
        return known

    def _keep(self, fresh: Known) -> None:
        """Cache the figures of the pairs with a score, the scores last."""
        for name, cache in reversed(self._caches.items()):
            figures = getattr(fresh, name)
            if kept := {key: figures[key] for key in fresh.scores if key in figures}:
                cache.put(kept)

    def _count_tokens(self, items: Sequence[PoolItem], context: RAGtuneContext) -> int:
        return sum(self._lengths(items, context))

    def _lengths(self, items: Sequence[PoolItem], context: RAGtuneContext) -> list[int]:
        query = count_tokens(context.query)
        limit = self.max_length
        pairs = [query + length for length in lengths_of(items)]
        return pairs if limit is None else [min(limit, pair) for pair in pairs]

    def rerank(self, items: Sequence[PoolItem], context: RAGtuneContext, strategy: str) -> dict[str, float]:
        (outcome,) = self._rerank_together([RerankBatch(items, context, strategy)])
        if isinstance(outcome, Exception):
            raise outcome
        return dict(outcome)

    def _rerank_together(self, batches: Sequence[RerankBatch]) -> list[Mapping[str, float] | Exception]:
        asked = []
        for batch in batches:
            keys, lengths = self._keys(batch.items, batch.context), self._lengths(batch.items, batch.context)
            asked.append(_Asked(batch, keys, dict(zip(keys.values(), lengths, strict=True))))
        known = self._recall(list({key: None for each in asked for key in each.pairs}))
        unknown: dict[Key, Pair] = {}
        for each in asked:
            items, context, _ = each.batch
            places = {key: place for place, key in enumerate(each.keys.values())}
            each.paid = {k: place for k, place in places.items() if k not in known.scores and k not in unknown}
            facts = facts_of(items) if each.paid else ()
            for key, place in each.paid.items():
                unknown[key] = Pair(facts[place].content, each.pairs[key], context, items, place)
        error: Exception | None = None
        try:
            if unknown:
                self._score_unknown(unknown, known)
        except Exception as caught:
            error = caught
        # A failed call does not undo the cost of earlier ones, nor the scores of batches without a pair in it.
        return [self._settled(each, known, error) for each in asked]

    def _settled(self, asked: _Asked, known: Known, error: Exception | None) -> Mapping[str, float] | Exception:
        items, context, _ = asked.batch
        if not items:
            return {}
        self._report(asked, known, context)
        scored = {doc_id: known.scores[key] for doc_id, key in asked.keys.items() if key in known.scores}
        return error if error is not None and len(scored) < len(items) else scored

    def _report(self, asked: _Asked, known: Known, context: RAGtuneContext) -> None:
        """Charge the documents that were scored or at least answered for, and pay for those that were not cached."""
        items = asked.batch.items
        pairs = {key: tokens for key, tokens in asked.pairs.items() if key in known.scores or key in known.times}
        made = items
        if len(pairs) < len(asked.pairs):
            made = some_of(items, [place for place, key in enumerate(asked.keys.values()) if key in pairs])
        cost = self._bill(made, pairs, known, context)
        context.meter.charge(cost)
        paid = {key: tokens for key, tokens in pairs.items() if key in asked.paid}
        if len(paid) < len(made):
            cost = self._bill(some_of(items, [asked.paid[key] for key in paid]), paid, known, context)
        if paid or known.failed:
            context.meter.pay(cost)

    @staticmethod
    def _made_ms(pairs: Collection[Key], known: Known) -> float:
        """The time that the pairs took when they were scored."""
        return sum(known.times[key] for key in pairs if key in known.times)


def shares(whole: float, weights: Mapping[Key, float]) -> dict[Key, float]:
    """Share a whole in proportion to the weights."""
    total = sum(weights.values())
    return {key: whole * weight / total for key, weight in weights.items()}
