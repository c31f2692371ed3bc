"""What live rerankers that score one (query, document) pair at a time share: prices, and a durable score cache."""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ragtune.core.arguments import check_count, check_number
from ragtune.core.interfaces import BaseReranker
from ragtune.core.pool.batch import RerankBatch
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.budget import CostBudget
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.tokens import count_tokens
from ragtune.core.types import CostObject
from ragtune.data.diskcache import resolve_cache_dir
from ragtune.data.scorecache import ScoreCache, TimeCache

_WARM_UP_QUERY = "how long does one passage of ordinary length take"
_WARM_UP_PASSAGE = " ".join(
    ["A passage of ordinary length, which nobody asked for, is read to see how long it takes."] * 8
)
_WARM_UP_BATCH, _WARM_UP_TRIES = 8, 3


class Speed(NamedTuple):
    """How fast a model is, as a line in the tokens of a batch."""

    ms_per_call: float
    ms_per_token: float


@dataclass
class _Known:
    """Scores of pairs, the milliseconds that each took when it was made, and tokens of pairs so timed, by key."""

    scores: dict[bytes, float] = field(default_factory=dict)
    times: dict[bytes, float] = field(default_factory=dict)
    tokens: dict[bytes, int] = field(default_factory=dict)


class Pair(NamedTuple):
    """A document and the request that it is to be scored for."""

    item: PoolItem
    context: RAGtuneContext


@dataclass
class _Asked:
    """A batch, the key of each of its documents by id, and the keys of those pairs that it pays for."""

    batch: RerankBatch
    keys: dict[str, bytes]
    paid: set[bytes] = field(default_factory=set)


class PairwiseReranker(BaseReranker):
    """Scores pairs in forward passes of ``batch_size``, keeps every score at once, and reports what it really paid.

    A batch is charged all its documents, one call, the tokens of every pair, money by the price, and the time that each
    score took when it was made, in this run or an earlier one: a pass's time is shared among its pairs by their tokens.
    So a charge does not depend on what the cache holds; only a score kept by a version that timed nothing is charged
    the expected time. Actual cost is what the cache did not have. Loading the model is never on a request's clock.

    Args:
        batch_size: pairs a forward pass, >= 1.
        max_length: tokens of a pair that are read and charged; None for no limit.
        ms_per_doc, ms_per_call: prices for the expected cost, >= 0. Where both are 0, it is what the pairs took if the
            cache knows that, else what passes of the loaded model take; without a time limit none is loaded for it.
        usd_per_1k_tokens: price of the tokens, >= 0; 0 means unknown.
        cache_dir: where scores are kept: ``auto`` for the platform's cache folder, a folder, or None for no cache.
        preload: whether :meth:`prepare` loads the model. Without it, it is loaded once a score is missing, or where a
            request under a time limit begins with pairs that the cache does not know: a run whose scores are all kept
            loads none.
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
    def _score(self, pairs: Sequence[Pair]) -> list[float]:
        """Calibrated scores in [0, 1] of one forward pass, which may hold pairs of several requests."""

    def prepare(self) -> None:
        """Load the model and learn from a few passes how long a batch should take, if ``preload`` says so.

        Raises:
            InputError: if the model cannot be loaded.
        """
        if self.preload:
            self._learn_speed()

    def rerank(self, items: Sequence[PoolItem], context: RAGtuneContext, strategy: str) -> dict[str, float]:
        (outcome,) = self.rerank_many([RerankBatch(items, context, strategy)])
        if isinstance(outcome, Exception):
            raise outcome
        return dict(outcome)

    def rerank_many(self, batches: Sequence[RerankBatch]) -> list[Mapping[str, float] | Exception]:
        asked = [_Asked(batch, self._keys(batch.items, batch.context)) for batch in batches]
        known = _Known()
        self._recall(list({key: None for each in asked for key in each.keys.values()}), known)
        unknown: dict[bytes, Pair] = {}
        for each in asked:
            mine = {each.keys[item.doc_id]: Pair(item, each.batch.context) for item in each.batch.items}
            each.paid = {key for key in mine if key not in known.scores and key not in unknown}
            unknown |= {key: mine[key] for key in each.paid}
        error: Exception | None = None
        try:
            self._score_unknown(unknown, known)
        except Exception as caught:
            error = caught
        # A pass that fails does not undo the expense of those before it, nor the scores of a batch that had no part.
        return [self._settled(each, known, error) for each in asked]

    def _settled(self, asked: _Asked, known: _Known, error: Exception | None) -> Mapping[str, float] | Exception:
        scored = {item.doc_id: item for item in asked.batch.items if asked.keys[item.doc_id] in known.scores}
        self._report(list(scored.values()), asked, known)
        if error is not None and len(scored) < len(asked.keys):
            return error
        return {doc_id: known.scores[asked.keys[doc_id]] for doc_id in scored}

    def expected_cost(self, items: Sequence[PoolItem], context: RAGtuneContext) -> CostObject:
        """All documents, one call, tokens of query and document for each, time and money by prices or measurement."""
        return self._cost(items, self._expected_ms(items, context), context)

    @property
    def unpriced(self) -> frozenset[str]:
        """Time and money."""
        return frozenset({"latency_ms", "usd"})

    def _keys(self, items: Sequence[PoolItem], context: RAGtuneContext) -> dict[str, bytes]:
        with context.tracker.clock.paused():
            identity = self._identity() if self._cache else ""
        return {item.doc_id: ScoreCache.key(identity, context.query, item.content) for item in items}

    def _recall(self, keys: Sequence[bytes], known: _Known) -> None:
        """Add what the cache knows of the pairs."""
        if self._cache and self._times:
            known.scores |= self._cache.get(keys)
            known.times |= self._times.get([key for key in keys if key in known.scores])

    def _cost(self, items: Sequence[PoolItem], ms: float, context: RAGtuneContext) -> CostObject:
        tokens = self._count_tokens(items, context)
        usd = tokens / 1000.0 * self.usd_per_1k_tokens
        return CostObject.model_construct(tokens=tokens, docs=len(items), calls=1, latency_ms=ms, usd=usd)

    def _count_tokens(self, items: Sequence[PoolItem], context: RAGtuneContext) -> int:
        query = count_tokens(context.query)
        limit = self.max_length
        pairs = [query + _tokens(item) for item in items]
        return sum(pairs) if limit is None else sum(min(limit, pair) for pair in pairs)

    def _score_unknown(self, unknown: Mapping[bytes, Pair], known: _Known) -> None:
        """Score the pairs pass by pass; what each brings is known then, and kept for good."""
        if not unknown:
            return
        with ExitStack() as stack:
            for context in {id(pair.context): pair.context for pair in unknown.values()}.values():
                stack.enter_context(context.tracker.clock.paused())
            self._make_ready()
        # Texts of like length share a pass, which wastes the least padding.
        by_length = sorted(unknown.items(), key=lambda entry: (-len(entry[1].item.content), entry[1].item.doc_id))
        for start in range(0, len(by_length), self.batch_size):
            chunk = dict(by_length[start : start + self.batch_size])
            pairs = list(chunk.values())
            started = time.perf_counter()
            values = self._score(pairs)
            took_ms = (time.perf_counter() - started) * 1000.0
            fresh = dict(zip(chunk, values, strict=True))
            shares = dict(zip(chunk, self._shares(pairs, took_ms), strict=True))
            if self._cache and self._times:
                self._times.put(shares)
                self._cache.put(fresh)
            known.scores |= fresh
            known.times |= shares

    def _shares(self, pairs: Sequence[Pair], took_ms: float) -> list[float]:
        tokens = [max(1, self._count_tokens([pair.item], pair.context)) for pair in pairs]
        return [took_ms * each / sum(tokens) for each in tokens]

    def _report(self, scored: Sequence[PoolItem], asked: _Asked, known: _Known) -> None:
        context, keys = asked.batch.context, asked.keys
        pairs = {keys[item.doc_id]: item for item in scored}
        context.meter.charge(self._cost(scored, self._made_ms(pairs, known, context), context))
        paid = {key: item for key, item in pairs.items() if key in asked.paid}
        if paid:
            context.meter.pay(self._cost(list(paid.values()), sum(known.times[key] for key in paid), context))

    def _made_ms(self, pairs: Mapping[bytes, PoolItem], known: _Known, context: RAGtuneContext) -> float:
        """The time that the pairs took when they were scored, and a guess for those of which it is not known."""
        untimed = [item for key, item in pairs.items() if key not in known.times]
        timed_ms = sum(known.times[key] for key in pairs if key in known.times)
        return timed_ms + (self._guess_ms(untimed, context, known) if untimed else 0.0)

    # -- how long it should take -----------------------------------------------------------------------------------

    def _expected_ms(self, items: Sequence[PoolItem], context: RAGtuneContext) -> float:
        if self._has_price or context.time_left_ms == math.inf:
            return self._guess_ms(items, context)
        # Under a time limit it matters, so what the cache knows is asked, and the model is timed if it will be needed.
        keys = self._keys(items, context)
        known = context.remember(self._cache, _Known) if self._cache else _Known()
        pairs = {keys[item.doc_id]: item for item in items}
        self._recall([key for key in pairs if key not in known.scores], known)
        known.tokens |= {
            key: self._count_tokens([item], context)
            for key, item in pairs.items()
            if key in known.times and key not in known.tokens
        }
        if not known.times and any(key not in known.scores for key in pairs):
            with context.tracker.clock.paused():
                self._learn_speed()
        return self._made_ms(pairs, known, context)

    def _guess_ms(self, items: Sequence[PoolItem], context: RAGtuneContext, known: _Known | None = None) -> float:
        """By prices, else by the warm-up, else by what else is known in the request, else 0."""
        if self._has_price:
            return self.ms_per_call + self.ms_per_doc * len(items)
        if self._speed is not None:
            return self._speed.ms_per_call + self._speed.ms_per_token * self._count_tokens(items, context)
        if known is not None and known.tokens:
            each = sum(known.times[key] for key in known.tokens) / max(1, sum(known.tokens.values()))
            return each * self._count_tokens(items, context)
        return 0.0

    @property
    def _has_price(self) -> bool:
        return bool(self.ms_per_doc or self.ms_per_call)

    def _learn_speed(self) -> None:
        if self._speed is not None:
            return
        self._make_ready()
        self._timed_pass(1)  # the first pass of a process is slower than all others
        # Whatever else the machine does makes a pass slower, never faster.
        one_ms, one = min(self._timed_pass(1) for _ in range(_WARM_UP_TRIES))
        many_ms, many = min(self._timed_pass(_WARM_UP_BATCH) for _ in range(_WARM_UP_TRIES))
        ms_per_token = max(0.0, many_ms - one_ms) / max(1, many - one)
        self._speed = Speed(max(0.0, one_ms - ms_per_token * one), ms_per_token)

    def _timed_pass(self, pairs: int) -> tuple[float, int]:
        """Milliseconds and tokens of a pass over passages of ordinary length."""
        context = RAGtuneContext(query=_WARM_UP_QUERY, query_id="", tracker=CostBudget.unlimited().create_tracker())
        items = [PoolItem(doc_id=str(i), content=_WARM_UP_PASSAGE) for i in range(pairs)]
        started = time.perf_counter()
        self._score([Pair(item, context) for item in items])
        return (time.perf_counter() - started) * 1000.0, self._count_tokens(items, context)


def _tokens(item: PoolItem) -> int:
    return item.token_count or count_tokens(item.content)
