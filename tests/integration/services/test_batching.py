"""Requests that share calls of a model: what waits together goes together, and each gets its own."""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from contextvars import copy_context
from typing import Any

import pytest
from patience import HANG_S, wait_until

from ragtune.canonical.permit import Permit
from ragtune.core.component import RerankerFacts
from ragtune.core.errors import ConfigError, NotAskedError
from ragtune.core.interfaces import BaseReranker
from ragtune.core.pool.items import PoolItem, RerankBatch
from ragtune.core.request.budget import CostBudget
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import CostObject
from ragtune.services.batching import SharedCalls


class Model(BaseReranker):
    """Scores by length, fails at 'bad', and works only while its gate is open."""

    def __init__(self, joint: Exception | None = None) -> None:
        self.calls: list[list[str]] = []
        self.gate, self.at_work = threading.Event(), threading.Semaphore(0)
        self._joint = joint
        self.slowly_s = 0.0

    def rerank(self, items: Sequence[PoolItem], context: RAGtuneContext, strategy: str) -> dict[str, float]:
        (outcome,) = self.rerank_many([RerankBatch(items, context, strategy)])
        if isinstance(outcome, Exception):
            raise outcome
        return dict(outcome)

    def rerank_many(self, batches: Sequence[RerankBatch]) -> list[Mapping[str, float] | Exception]:
        self.calls.append([batch.context.query for batch in batches])
        self.at_work.release()
        assert self.gate.wait(HANG_S)
        time.sleep(self.slowly_s)
        if self._joint is not None and len(batches) > 1:
            raise self._joint
        return [self._one(batch) for batch in batches]

    @staticmethod
    def _one(batch: RerankBatch) -> Mapping[str, float] | Exception:
        batch.context.meter.pay(CostObject(tokens=len(batch.items), calls=1))
        if batch.context.query == "bad":
            return ConfigError("this one is bad")
        return {item.doc_id: 1 / (1 + len(item.content)) for item in batch.items}


def context_of(query: str, ms: float | None = None) -> RAGtuneContext:
    tracker = CostBudget.only(max_latency_ms=ms).create_tracker()
    return RAGtuneContext(query=query, query_id=query, tracker=tracker)


class Requests:
    """Requests in threads of their own."""

    def __init__(self, shared: SharedCalls) -> None:
        self.shared = shared
        self._threads = ThreadPoolExecutor(16)

    def begin(self, context: RAGtuneContext, docs: int = 1) -> Future[dict[str, float]]:
        """A batch that the model is at work on."""
        asked = self.submit(context, docs)
        assert self.shared.inner.at_work.acquire(timeout=HANG_S)  # type: ignore[attr-defined]
        return asked

    def queue(self, context: RAGtuneContext, docs: int = 1) -> Future[dict[str, float]]:
        """A batch that waits, while the model is at work on another one."""
        before = len(self.shared._queue)
        asked = self.submit(context, docs)
        while len(self.shared._queue) == before:
            assert not asked.done()
            time.sleep(0.001)
        return asked

    def submit(self, context: RAGtuneContext, docs: int = 1) -> Future[dict[str, float]]:
        return self._threads.submit(self.shared.rerank, items(docs, context.query), context, "default")


def items(docs: int, text: str = "x") -> list[PoolItem]:
    return [PoolItem(doc_id=f"{text}{i}", content=text) for i in range(docs)]


@pytest.fixture
def open_() -> Iterator[Any]:
    with ExitStack() as stack:

        def make(model: Model, **options: Any) -> Requests:
            shared = SharedCalls(model, **options)
            stack.callback(shared.close)
            stack.callback(model.gate.set)
            return Requests(shared)

        yield make


@pytest.mark.parametrize("joint", [None, ConnectionError("down"), ConfigError("no")], ids=lambda e: type(e).__name__)
def test_what_waits_together_is_scored_together_and_each_gets_its_own(open_: Any, joint: Exception | None) -> None:
    seen: list[int] = []
    model = Model(joint)
    requests = open_(model, observe=seen.append)
    contexts = {query: context_of(query) for query in ("first", "a", "bad", "ccc")}
    asked = {"first": requests.begin(contexts["first"], docs=2)}
    asked |= {query: requests.queue(contexts[query], docs=2) for query in ("a", "bad", "ccc")}
    model.gate.set()
    for query in ("first", "a", "ccc"):
        assert asked[query].result(HANG_S) == {f"{query}{i}": 1 / (1 + len(query)) for i in range(2)}
    with pytest.raises(ConfigError, match="this one is bad"):
        asked["bad"].result(HANG_S)
    assert model.calls[:2] == [["first"], ["a", "bad", "ccc"]]
    assert model.calls[2:] == ([] if joint is None else [["a"], ["bad"], ["ccc"]])
    assert {context.meter.actual.tokens for context in contexts.values()} == {2}
    requests.shared.close()
    assert seen == [1, 3]


def test_a_call_is_no_larger_than_allowed_and_large_batches_are_scored_in_turns(
    open_: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Model()
    requests = open_(model, docs=10)
    requests.shared._pace.observe(1, 0.0)
    monkeypatch.setattr(requests.shared._pace, "observe", lambda docs, ms: None)  # the first call waits for the others
    asked = [requests.begin(context_of("first"))]
    asked += [requests.queue(context_of(query), docs) for query, docs in (("large", 25), ("b", 2), ("c", 3))]
    model.gate.set()
    assert [len(one.result(HANG_S)) for one in asked] == [1, 25, 2, 3]
    assert model.calls == [["first"], ["large", "b"], ["c", "large"], ["large"]]


def test_a_batch_in_parts_is_one_call_of_its_budget_and_comparisons_are_not_cut(open_: Any) -> None:
    model = Model()
    requests = open_(model, docs=10)
    model.gate.set()
    context = context_of("large")
    assert len(requests.submit(context, docs=30).result(HANG_S)) == 30
    assert (context.meter.actual.tokens, context.meter.actual.calls, len(model.calls)) == (30, 1, 4)

    class Comparing(Model):
        facts = RerankerFacts(compares=True)

    requests = open_(comparing := Comparing(), docs=10)
    comparing.gate.set()
    assert len(requests.submit(context_of("large"), docs=30).result(HANG_S)) == 30
    assert comparing.calls == [["large"]]


def test_a_batch_ends_between_calls_when_its_client_is_gone_or_its_time_is_over(open_: Any) -> None:
    model = Model()
    requests = open_(model, docs=8)
    permit, hurried = Permit(), context_of("hurried", ms=800.0)
    with permit.used(), ThreadPoolExecutor(1) as threads:
        gone = threads.submit(copy_context().run, requests.shared.rerank, items(100), context_of("gone"), "default")
        assert model.at_work.acquire(timeout=HANG_S)
        late = requests.queue(hurried, docs=100)
        permit.withdraw()
        model.slowly_s = 0.1
        model.gate.set()
        assert len(gone.result(HANG_S)) == 8
    assert 8 <= len(late.result(HANG_S)) < 100
    assert len(model.calls) < 10


def test_the_batch_that_is_due_first_is_scored_first(open_: Any) -> None:
    model = Model()
    requests = open_(model, docs=2)
    asked = [requests.begin(context_of("first"))]
    waiting = [("late", 9_000.0), ("no limit", None), ("hurried", 7_000.0)]
    asked += [requests.queue(context_of(query, ms), docs=2) for query, ms in waiting]
    model.gate.set()
    assert all(one.result(HANG_S) for one in asked)
    assert model.calls == [["first"], ["hurried"], ["late"], ["no limit"]]


def test_a_request_that_has_had_its_share_of_the_model_lets_the_others_go_first(open_: Any) -> None:
    model = Model()
    requests = open_(model, docs=2)
    requests.shared.count(2)
    asked, served = [requests.begin(context_of("first"))], Permit()
    served.served_ms = 3_000.0
    with served.used(), ThreadPoolExecutor(1) as threads:
        again = context_of("again", ms=5_000.0)
        asked.append(threads.submit(copy_context().run, requests.shared.rerank, items(2), again, "default"))
        wait_until(lambda: len(requests.shared._queue) == 2)
        asked.append(requests.queue(context_of("new", ms=7_000.0), docs=2))
        model.gate.set()
        assert all(one.result(HANG_S) for one in asked)
    assert model.calls == [["first"], ["new"], ["again"]]


def test_a_batch_that_others_keep_from_the_model_until_its_time_is_over_is_refused_at_once(open_: Any) -> None:
    model = Model()
    requests = open_(model)
    asked = [requests.begin(context_of("first")), requests.queue(context_of("due before", ms=8_000.0), docs=30)]
    for _ in range(40):
        requests.shared._pace.observe(1, 300.0)
    with pytest.raises(NotAskedError, match="works for other requests"):
        requests.shared.rerank(items(1), context_of("hurried", ms=8_500.0), "default")
    model.gate.set()
    assert all(one.result(HANG_S) for one in asked)


def test_a_request_whose_time_is_up_before_its_call_is_neither_scored_nor_charged(open_: Any) -> None:
    model = Model()
    requests = open_(model)
    first, late = requests.begin(context_of("first")), context_of("late", ms=30.0)
    with pytest.raises(NotAskedError, match="time was up"):
        requests.submit(late).result(HANG_S)
    model.gate.set()
    assert first.result(HANG_S)
    requests.shared.close()
    assert (model.calls, late.meter.actual.tokens) == ([["first"]], 0)


def test_a_call_grows_only_as_far_as_it_should_end_in_everybodys_time(open_: Any) -> None:
    model = Model()
    requests = open_(model)
    asked = [requests.begin(context_of("first"))]
    hurried = context_of("hurried", ms=1000.0 * HANG_S)
    waiting = [(context_of("a"), 2), (hurried, 2), (context_of("b"), 6), (context_of("c"), 1)]
    asked += [requests.queue(context, docs) for context, docs in waiting]
    for _ in range(40):  # so that the call under way, which is long over for its size, is no model for the next ones
        requests.shared._pace.observe(1, 200.0 * HANG_S)
    model.gate.set()
    assert all(one.result(HANG_S) for one in asked)
    assert model.calls == [["first"], ["a", "hurried"], ["b", "c"]]


def test_a_batch_that_no_call_can_serve_in_time_is_not_put_to_the_model(open_: Any) -> None:
    model = Model()
    requests = open_(model)
    model.gate.set()
    requests.shared._pace.observe(1, 4000.0 * HANG_S)
    with pytest.raises(NotAskedError, match="would be up before the model's answer"):
        requests.submit(context_of("hurried", ms=1000.0 * HANG_S)).result(HANG_S)
    assert model.calls == []
    assert requests.submit(context_of("hurried", ms=1000.0 * HANG_S)).result(HANG_S)  # one slow call forbids no more


def test_what_a_batch_waits_and_the_others_share_of_its_call_are_reported(open_: Any) -> None:
    model = Model()
    model.slowly_s = 0.1  # much more than a thread waits for a processor
    requests = open_(model)
    first, contexts = requests.begin(context_of("first")), [context_of("a"), context_of("b")]
    asked = [requests.queue(context, docs) for context, docs in zip(contexts, (1, 3), strict=True)]
    queued = time.monotonic()
    model.gate.set()
    assert all(one.result(HANG_S) for one in (first, *asked))
    over_ms = 1000.0 * (time.monotonic() - queued)
    assert model.calls == [["first"], ["a", "b"]]
    assert contexts[0].meter.waited_ms > 0
    assert contexts[1].meter.waited_ms <= over_ms + 1000.0 * HANG_S
    assert contexts[0].meter.waited_ms > contexts[1].meter.waited_ms  # it came first, and its share is the smaller one


def test_a_model_that_panics_fails_its_batches_and_is_asked_again(open_: Any) -> None:
    class Panic(BaseException):
        """As PyO3's, which is no Exception."""

    class Panicking(Model):
        @staticmethod
        def _one(batch: RerankBatch) -> Mapping[str, float] | Exception:
            if batch.context.query == "panic":
                raise Panic("a text that the tokenizer cannot take")
            return Model._one(batch)

    requests = open_(model := Panicking())
    model.gate.set()
    with pytest.raises(RuntimeError, match="panicked: Panic: a text"):
        requests.submit(context_of("panic")).result(HANG_S)
    assert requests.submit(context_of("fine")).result(HANG_S)


def test_only_so_many_wait_and_closing_ends_what_waits_after_the_call_under_way(open_: Any) -> None:
    model = Model()
    requests = open_(model, waiting=2)
    under_way = requests.begin(context_of("a"))
    waiting = [requests.queue(context_of(query)) for query in ("b", "c")]
    with pytest.raises(NotAskedError, match="2 batches wait"):
        requests.shared.rerank([PoolItem(doc_id="x")], context_of("d"), "default")
    closing = threading.Thread(target=requests.shared.close)
    closing.start()
    model.gate.set()
    closing.join(HANG_S)
    assert under_way.result(HANG_S)
    for one in waiting:  # scored or refused, never left hanging
        assert one.exception(HANG_S) is None or isinstance(one.exception(), NotAskedError)
    with pytest.raises(NotAskedError, match="being closed"):
        requests.shared.rerank([PoolItem(doc_id="x")], context_of("d"), "default")
