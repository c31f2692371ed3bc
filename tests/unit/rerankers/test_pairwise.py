"""Time and money of rerankers that score pairs: what is measured, what a cache remembers, what no clock sees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ragtune import CostBudget
from ragtune.core.pool.items import PoolItem, RerankBatch
from ragtune.core.request.clock import MonotonicClock
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.request.trace import ControllerTrace
from ragtune.core.tokens import count_tokens
from ragtune.core.types import CostObject
from ragtune.rerankers._cached import Pair
from ragtune.rerankers.models.pairwise import PairwiseReranker

MakeContext = Callable[..., RAGtuneContext]
LOADING_MS, PASS_MS, TOKEN_MS = 8000.0, 5.0, 2.0


class Slow(PairwiseReranker):
    """Takes 8 s to load, and 5 ms a pass besides 2 ms a token."""

    preload = False

    def __init__(self, machine: Any, batch_size: int = 32, cache_dir: str | None = "auto", **options: object):
        given = {"max_length": None, "usd_per_1k_tokens": 0.5}
        super().__init__(batch_size=batch_size, cache_dir=cache_dir, **(given | options))  # type: ignore[arg-type]
        self._machine = machine
        self._is_loaded = False
        self.fails = False
        self.passes: list[int] = []
        self.hiccups: list[float] = []

    def _identity(self) -> str:
        return "slow"

    def _make_ready(self) -> None:
        if not self._is_loaded:
            self._machine.work(LOADING_MS)
            self._machine.loads += 1
            self._is_loaded = True

    def _score(self, pairs: Sequence[Pair]) -> list[float]:
        assert self._is_loaded
        self.passes.append(len(pairs))
        texts = [pair.item.content for pair in pairs]
        tokens = sum(count_tokens(pair.context.query) + count_tokens(pair.item.content) for pair in pairs)
        self._machine.work(PASS_MS + TOKEN_MS * tokens + (self.hiccups.pop(0) if self.hiccups else 0.0))
        if self.fails:
            raise RuntimeError("out of memory")
        return [(len(text) % 10) / 10 for text in texts]


@pytest.fixture
def machine(machine: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The one of all tests, which counts loads too, and whose time the rerankers read."""
    machine.loads = 0
    monkeypatch.setattr("ragtune.rerankers.models.pairwise.time", machine)
    return machine


def took(items: Sequence[PoolItem], passes: int = 1, query: str = "query") -> float:
    return passes * PASS_MS + TOKEN_MS * sum(count_tokens(query) + count_tokens(item.content) for item in items)


def charged(context: RAGtuneContext) -> CostObject:
    return context.meter.charged


@pytest.mark.parametrize("batch_size", [2, 32])
def test_a_charge_does_not_depend_on_what_the_cache_holds(
    machine: Any, items: list[PoolItem], make_context: MakeContext, batch_size: int
) -> None:
    live, cached, kept, mixed = (make_context() for _ in range(4))
    Slow(machine, batch_size).rerank(items[:4], live, "default")
    assert charged(live) == live.meter.actual
    assert charged(live).latency_ms == pytest.approx(took(items[:4], passes=4 // min(4, batch_size)))
    Slow(machine).rerank(items[:4], cached, "default")
    assert charged(cached) == charged(live)
    assert cached.meter.actual == CostObject()

    # Each costs what it cost when it was made, though the batch is another one; only the new one is paid.
    Slow(machine).rerank(items[3:4], kept, "default")
    Slow(machine).rerank(items[3:5], mixed, "default")
    assert (charged(mixed).docs, mixed.meter.actual.docs) == (2, 1)
    assert mixed.meter.actual.latency_ms == pytest.approx(took(items[4:5]))
    assert charged(mixed).latency_ms == pytest.approx(charged(kept).latency_ms + took(items[4:5]))


def test_loading_is_on_no_requests_clock_even_in_the_middle_of_a_run(
    machine: Any, items: list[PoolItem], make_context: MakeContext
) -> None:
    Slow(machine).rerank(items[:2], make_context(), "default")
    assert machine.loads == 1

    again = Slow(machine)
    again.prepare()
    context = make_context(tracker=CostBudget.unlimited().create_tracker(ControllerTrace(), MonotonicClock()))
    again.rerank(items[:2], context, "default")
    assert (machine.loads, context.tracker.elapsed_ms) == (1, 0.0)
    again.rerank(items[:3], context, "default")
    assert machine.loads == 2
    assert context.tracker.elapsed_ms == pytest.approx(took(items[2:3]))
    assert context.meter.actual.latency_ms == pytest.approx(took(items[2:3]))


def test_batches_of_several_requests_share_passes_and_each_has_the_scores_and_the_bill_of_its_own(
    machine: Any, items: list[PoolItem], make_context: MakeContext
) -> None:
    one, other = make_context("query"), make_context("another query")
    reranker = Slow(machine, cache_dir=None)
    outcomes = reranker.rerank_many([RerankBatch(items[:3], one), RerankBatch(items[1:4], other)])
    assert reranker.passes == [6]
    cut = [("x\0y", "z"), ("x", "y\0z")]  # two pairs, though their texts joined by a zero are one
    reranker.rerank_many([RerankBatch([PoolItem("a", text)], make_context(query)) for query, text in cut])
    assert reranker.passes == [6, 2]
    alone = Slow(machine, cache_dir=None)
    assert outcomes[0] == alone.rerank(items[:3], make_context("query"), "default")
    assert outcomes[1] == alone.rerank(items[1:4], make_context("another query"), "default")
    assert [charged(context).docs for context in (one, other)] == [3, 3]
    assert one.meter.actual == charged(one)
    together = took(items[:3]) + took(items[1:4], query="another query") - PASS_MS
    assert charged(one).latency_ms + charged(other).latency_ms == pytest.approx(together)


def test_a_pass_that_fails_is_the_trouble_of_the_batches_that_it_was_part_of(
    machine: Any, make_context: MakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    long, short = ([PoolItem(doc_id=f"{n}{i}", content=f"{i} word " * n) for i in range(2)] for n in (9, 1))
    lucky, unlucky = make_context(), make_context()
    reranker = Slow(machine, batch_size=2, cache_dir=None)
    score = Slow._score

    def fails_in_the_second_pass(self: Slow, pairs: Sequence[Pair]) -> list[float]:
        self.fails = len(self.passes) == 1
        return score(self, pairs)

    monkeypatch.setattr(Slow, "_score", fails_in_the_second_pass)
    outcomes = reranker.rerank_many([RerankBatch(short, unlucky), RerankBatch(long, lucky)])
    assert isinstance(outcomes[0], RuntimeError)
    assert isinstance(outcomes[1], dict)
    assert (charged(unlucky).docs, charged(lucky).docs) == (0, 2)
