"""Base of rerankers whose model runs in this process: forward passes and their times."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack

from ragtune.core.pool.items import PoolItem, RerankBatch
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import CostObject
from ragtune.rerankers._cached import CachedReranker, Key, Known, Pair, Pairs, shares
from ragtune.rerankers.models.architecture import Architecture

_CHARS_A_TOKEN = 4  # approximate characters of a model's token
_CHARS_A_PASS = 400  # characters of padding that cost as much as a further pass


class PairwiseReranker(CachedReranker):
    """Scores pairs in passes of ``batch_size``, whose time they share by tokens; loading is on no request's clock."""

    preload: bool = True
    _pass_chars: int | None = None
    """Characters of passages in a pass, with padding; None: any number."""

    @abstractmethod
    def _make_ready(self) -> object:
        """Load the model, unless it is loaded."""

    @abstractmethod
    def _score(self, pairs: Sequence[Pair]) -> list[float]:
        """Calibrated scores in [0, 1] of one forward pass, which may hold pairs of several requests."""

    def prepare(self) -> None:
        """Open the caches. With ``preload``, load the model."""
        self._open_caches()
        if self.preload:
            self._make_ready()

    def rerank_many(self, batches: Sequence[RerankBatch]) -> list[Mapping[str, float] | Exception]:
        return self._rerank_together(batches)

    def expected_cost(self, items: Sequence[PoolItem], context: RAGtuneContext) -> CostObject:
        """All documents, one call, tokens of query and document for each, money by the price."""
        return self._cost(items, 0.0, context)

    def _bill(self, items: Sequence[PoolItem], pairs: Pairs, known: Known, context: RAGtuneContext) -> CostObject:
        return self._cost(items, self._made_ms(pairs, known), context)

    def _cost(self, items: Sequence[PoolItem], ms: float, context: RAGtuneContext) -> CostObject:
        tokens, size = self._count_tokens(items, context), self._size(context)
        usd = tokens / 1000.0 * self.usd_per_1k_tokens
        flops = sum(map(size.flops, self._lengths(items, context))) if size else 0.0
        return CostObject.model_construct(tokens=tokens, docs=len(items), calls=1, latency_ms=ms, usd=usd, flops=flops)

    def _size(self, context: RAGtuneContext) -> Architecture | None:
        """The size of the model, for FLOPs; None where it is not known."""
        return None

    def _score_unknown(self, unknown: Mapping[Key, Pair], known: Known) -> None:
        """Score the pairs pass by pass; each pass's scores are cached at once."""
        with ExitStack() as stack:
            for context in {id(pair.context): pair.context for pair in unknown.values()}.values():
                stack.enter_context(context.tracker.clock.paused())
            self._make_ready()
        # Texts of similar length share a pass, which needs the least padding.
        by_length = sorted(unknown.items(), key=lambda entry: (-len(entry[1].item.content), entry[1].item.doc_id))
        for chunk in self._passes(by_length):
            started = time.perf_counter()
            values = self._score(list(chunk.values()))
            took_ms = (time.perf_counter() - started) * 1000.0
            tokens = {key: max(1, self._count_tokens([pair.item], pair.context)) for key, pair in chunk.items()}
            fresh = Known(dict(zip(chunk, values, strict=True)), shares(took_ms, tokens))
            self._keep(fresh)
            known.scores |= fresh.scores
            known.times |= fresh.times

    def _passes(self, longest_first: Sequence[tuple[Key, Pair]]) -> Iterator[dict[Key, Pair]]:
        start = 0
        while start < len(longest_first):
            size = self._pass_size([self._read(pair) for _, pair in longest_first[start : start + self.batch_size]])
            yield dict(longest_first[start : start + size])
            start += size

    def _pass_size(self, lengths: Sequence[int]) -> int:
        """The first of these passages, longest first, that share a pass: it is full, or the padding costs too much."""
        if self._pass_chars is None:
            return len(lengths)
        most = min(len(lengths), max(1, self._pass_chars // max(1, lengths[0])))
        size, padding = 1, 0
        while size < most and (padding := padding + lengths[0] - lengths[size]) <= _CHARS_A_PASS:
            size += 1
        return size

    def _read(self, pair: Pair) -> int:
        """Characters of a passage that are read, as far as they are known without its tokens."""
        length = len(pair.item.content)
        return length if self.max_length is None else min(length, _CHARS_A_TOKEN * self.max_length)
