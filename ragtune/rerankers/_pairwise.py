"""What live rerankers that score one (query, document) pair at a time share: prices, and a durable score cache."""

from __future__ import annotations

import platform
import time
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ragtune.core.arguments import check_count, check_number
from ragtune.core.budget import CostBudget
from ragtune.core.context import RAGtuneContext
from ragtune.core.diskcache import resolve_cache_dir
from ragtune.core.interfaces import BaseReranker
from ragtune.core.items import PoolItem
from ragtune.core.scorecache import ScoreCache, TimeCache
from ragtune.core.tokens import count_tokens
from ragtune.core.types import CostObject

_WARM_UP_QUERY = "how long does one passage of ordinary length take"
_WARM_UP_PASSAGE = " ".join(
    ["A passage of ordinary length, which nobody asked for, is read to see how long it takes."] * 8
)
_WARM_UP_BATCH = 8


class Speed(NamedTuple):
    """How fast a model is, as a line in the tokens of a batch."""

    ms_per_call: float
    ms_per_token: float


class PairwiseReranker(BaseReranker):
    """Scores pairs in forward passes of ``batch_size``, keeps every score at once, and reports what it really paid.

    Charged are all documents of a batch, one call, the tokens of every pair, money by the price, and the time that each
    score took when it was made, in this run or an earlier one: a pass's time is shared among its pairs by their tokens.
    So a charge does not depend on what the cache holds; only a score kept by a version that timed nothing is charged
    the expected time. Actual cost is what the cache did not have. Loading the model is never on a request's clock.

    Args:
        batch_size: pairs a forward pass, >= 1.
        max_length: tokens of a pair that are read and charged; None for no limit.
        ms_per_doc, ms_per_call: prices for the expected cost, >= 0; both 0: as measured by :meth:`prepare`.
        usd_per_1k_tokens: price of the tokens, >= 0; 0 means unknown.
        cache_dir: of the scores; ``auto`` for the platform's cache folder, a folder, or None for no cache.
        preload: whether :meth:`prepare` loads the model in any case. Without it, a model whose speed on this machine
            the cache knows is loaded once a score is missing, so that a run whose scores are all kept loads none.
    """

    def __init__(
        self,
        batch_size: int,
        max_length: int | None,
        ms_per_doc: float,
        ms_per_call: float,
        usd_per_1k_tokens: float,
        cache_dir: str | Path | None,
        preload: bool,
    ) -> None:
        self.batch_size = check_count("reranker batch_size", batch_size, low=1)
        self.max_length = None if max_length is None else check_count("reranker max_length", max_length, low=1)
        self.ms_per_doc = check_number("reranker ms_per_doc", ms_per_doc, low=0.0)
        self.ms_per_call = check_number("reranker ms_per_call", ms_per_call, low=0.0)
        self.usd_per_1k_tokens = check_number("reranker usd_per_1k_tokens", usd_per_1k_tokens, low=0.0)
        folder = resolve_cache_dir(cache_dir)
        self._cache = None if folder is None else ScoreCache(folder / "scores")
        self._times = None if folder is None else TimeCache(folder / "scores")
        self.preload = preload
        self._speed: Speed | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_speed": None}

    @abstractmethod
    def _identity(self) -> str:
        """All that a score depends on besides query and text."""

    @abstractmethod
    def _make_ready(self) -> None:
        """Load the model, unless it is loaded."""

    @abstractmethod
    def _score(self, texts: Sequence[str], context: RAGtuneContext) -> list[float]:
        """Calibrated scores in [0, 1] of one forward pass."""

    @property
    def _device(self) -> str | None:
        """What the model runs on, as far as that was chosen."""
        return None

    def prepare(self) -> None:
        """Load the model and learn from two passes how long a batch should take, see ``preload``.

        Raises:
            InputError: if the model cannot be loaded.
        """
        if self._speed is None:
            self._speed = (None if self.preload else self._known_speed()) or self._measured_speed()

    def rerank(self, items: Sequence[PoolItem], context: RAGtuneContext, strategy: str) -> dict[str, float]:
        if not items:
            return {}
        with context.tracker.clock.paused():
            identity = self._identity() if self._cache else ""
        keys = {item.doc_id: ScoreCache.key(identity, context.query, item.content) for item in items}
        pairs = {keys[item.doc_id]: item for item in items}
        scores = self._cache.get(list(pairs)) if self._cache else {}
        times = self._times.get(list(scores)) if self._times else {}
        unknown = {key: item for key, item in pairs.items() if key not in scores}
        try:
            self._score_unknown(unknown, context, scores, times)
        finally:
            # A pass that fails does not undo the expense of those before it.
            self._report([item for item in items if keys[item.doc_id] in scores], keys, unknown, times, context)
        return {item.doc_id: scores[keys[item.doc_id]] for item in items}

    def expected_cost(self, items: Sequence[PoolItem], context: RAGtuneContext) -> CostObject:
        """All documents, one call, tokens of query and document for each, time and money by prices or measurement."""
        tokens = self._count_tokens(items, context)
        return self._cost(len(items), tokens, self._expected_ms(len(items), tokens))

    @property
    def unpriced(self) -> frozenset[str]:
        """Time and money."""
        return frozenset({"latency_ms", "usd"})

    def _cost(self, docs: int, tokens: int, ms: float) -> CostObject:
        usd = tokens / 1000.0 * self.usd_per_1k_tokens
        return CostObject.model_construct(tokens=tokens, docs=docs, calls=1, latency_ms=ms, usd=usd)

    def _expected_ms(self, docs: int, tokens: int) -> float:
        if self.ms_per_doc or self.ms_per_call or self._speed is None:
            return self.ms_per_call + self.ms_per_doc * docs
        return self._speed.ms_per_call + self._speed.ms_per_token * tokens

    def _count_tokens(self, items: Sequence[PoolItem], context: RAGtuneContext) -> int:
        query = count_tokens(context.query)
        limit = self.max_length
        pairs = [query + _tokens(item) for item in items]
        return sum(pairs) if limit is None else sum(min(limit, pair) for pair in pairs)

    def _score_unknown(
        self,
        unknown: Mapping[bytes, PoolItem],
        context: RAGtuneContext,
        scores: dict[bytes, float],
        times: dict[bytes, float],
    ) -> None:
        """Score the pairs pass by pass; what each brings goes to ``scores`` and ``times``, and is kept for good."""
        if not unknown:
            return
        with context.tracker.clock.paused():
            self._make_ready()
        # Texts of like length share a pass, which wastes the least padding.
        by_length = sorted(unknown.items(), key=lambda entry: (-len(entry[1].content), entry[1].doc_id))
        for start in range(0, len(by_length), self.batch_size):
            chunk = dict(by_length[start : start + self.batch_size])
            started = time.perf_counter()
            values = self._score([item.content for item in chunk.values()], context)
            took_ms = (time.perf_counter() - started) * 1000.0
            fresh = dict(zip(chunk, values, strict=True))
            shares = dict(zip(chunk, self._shares(list(chunk.values()), took_ms, context), strict=True))
            if self._cache and self._times:
                self._times.put(shares)
                self._cache.put(fresh)
            scores |= fresh
            times |= shares

    def _shares(self, items: Sequence[PoolItem], took_ms: float, context: RAGtuneContext) -> list[float]:
        tokens = [max(1, self._count_tokens([item], context)) for item in items]
        return [took_ms * each / sum(tokens) for each in tokens]

    def _report(
        self,
        scored: Sequence[PoolItem],
        keys: Mapping[str, bytes],
        unknown: Collection[bytes],
        times: Mapping[bytes, float],
        context: RAGtuneContext,
    ) -> None:
        pairs = {keys[item.doc_id]: item for item in scored}
        untimed = [item for key, item in pairs.items() if key not in times]
        took_ms = sum(times[key] for key in pairs if key in times)
        if untimed:
            took_ms += self._expected_ms(len(untimed), self._count_tokens(untimed, context))
        context.meter.charge(self._cost(len(scored), self._count_tokens(scored, context), took_ms))
        paid = [item for key, item in pairs.items() if key in unknown]
        if paid:
            paid_ms = sum(times[key] for key in pairs if key in unknown)
            context.meter.pay(self._cost(len(paid), self._count_tokens(paid, context), paid_ms))

    # -- speed -----------------------------------------------------------------------------------------------------

    def _known_speed(self) -> Speed | None:
        if self._times is None:
            return None
        keys = self._speed_keys()
        known = self._times.get(keys)
        return Speed(*(known[key] for key in keys)) if len(known) == len(keys) else None

    def _measured_speed(self) -> Speed:
        self._make_ready()
        self._timed_pass(1)  # the first pass of a process is slower than all others
        (one_ms, one), (many_ms, many) = self._timed_pass(1), self._timed_pass(_WARM_UP_BATCH)
        ms_per_token = max(0.0, many_ms - one_ms) / max(1, many - one)
        speed = Speed(max(0.0, one_ms - ms_per_token * one), ms_per_token)
        if self._times is not None:
            self._times.put(dict(zip(self._speed_keys(), speed, strict=True)))
        return speed

    def _timed_pass(self, pairs: int) -> tuple[float, int]:
        """Milliseconds and tokens of a pass over passages of ordinary length."""
        context = RAGtuneContext(query=_WARM_UP_QUERY, query_id="", tracker=CostBudget.unlimited().create_tracker())
        items = [PoolItem(doc_id=str(i), content=_WARM_UP_PASSAGE) for i in range(pairs)]
        started = time.perf_counter()
        self._score([item.content for item in items], context)
        return (time.perf_counter() - started) * 1000.0, self._count_tokens(items, context)

    def _speed_keys(self) -> list[bytes]:
        place = (self._identity(), platform.node(), str(self._device))
        return [TimeCache.key(*place, figure) for figure in Speed._fields]


def _tokens(item: PoolItem) -> int:
    return item.token_count or count_tokens(item.content)
