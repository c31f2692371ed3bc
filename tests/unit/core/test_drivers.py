"""Drivers: whose batches are scored with whose, and what becomes of all when one goes wrong."""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

import pytest

from ragtune.core.drivers import alone, lockstep
from ragtune.core.errors import InputError
from ragtune.core.interfaces import BaseReranker
from ragtune.core.pool.items import RerankBatch
from ragtune.testing import make_context, small_pool_items


class Joint(BaseReranker):
    """Scores every document .5 and notes what was scored together; ``act`` may make a joint call fail."""

    def __init__(self, act: Callable[[list[Any]], Any] = lambda outcomes: outcomes) -> None:
        self.joint: list[list[str]] = []
        self.single: list[str] = []
        self._act = act

    def rerank(self, items: Any, context: Any, strategy: str) -> dict[str, float]:
        self.single.append(context.query)
        return {item.doc_id: 0.5 for item in items}

    def rerank_many(self, batches: Sequence[RerankBatch]) -> Any:
        self.joint.append([batch.context.query for batch in batches])
        return self._act([{item.doc_id: 0.5 for item in batch.items} for batch in batches])


class Asking:
    """A request that asks for batches of one document and returns what it was sent, errors in words."""

    def __init__(self, name: str, batches: int, strategy: str = "default") -> None:
        self.context = make_context(query=name)
        self.batches, self.strategy = batches, strategy
        self.began = self.ended = False

    def __call__(self) -> Generator[RerankBatch, Mapping[str, float], list[Any]]:
        self.began = True
        heard: list[Any] = []
        try:
            for item in small_pool_items()[: self.batches]:
                try:
                    heard.append((yield RerankBatch([item], self.context, self.strategy)))
                except OSError as error:
                    heard.append(str(error))
            return heard
        finally:
            self.ended = True


def run(requests: Sequence[Asking], reranker: BaseReranker, width: int = 8) -> list[Any]:
    return lockstep((request() for request in requests), {"default": reranker}, width)


def some() -> list[Asking]:
    return [Asking(name, batches) for name, batches in (("a", 2), ("b", 0), ("c", 1), ("d", 3))]


def by_themselves() -> list[Any]:
    return [alone(request(), {"default": Joint()}) for request in some()]


@pytest.mark.parametrize(
    ("width", "joint"), [(1, []), (2, [["a", "c"], ["a", "d"]]), (8, [["a", "c", "d"], ["a", "d"]])]
)
def test_lockstep_scores_together_what_is_asked_for_at_once(width: int, joint: list[list[str]]) -> None:
    reranker = Joint()
    assert run(some(), reranker, width) == by_themselves()
    assert reranker.joint == joint
    assert len(reranker.single) + sum(map(len, joint)) == 6


def raising(error: BaseException) -> Callable[[list[Any]], Any]:
    def act(outcomes: list[Any]) -> Any:
        raise error

    return act


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (raising(OSError("out of memory")), "OSError: out of memory"),
        (lambda outcomes: outcomes[1:], "ValueError: rerank_many() returned 2 outcomes for 3 batches"),
        (lambda outcomes: None, "TypeError: 'NoneType' object is not iterable"),
    ],
    ids=["it raises", "too few outcomes", "nothing"],
)
def test_what_a_failed_joint_call_held_is_scored_one_by_one(act: Any, said: str) -> None:
    reranker, requests = Joint(act), some()
    assert run(requests, reranker) == by_themselves()
    assert sorted(reranker.single) == ["a", "a", "c", "d", "d", "d"]
    failed = [event for event in requests[0].context.trace.events if event.action == "joint_call_failed"]
    assert failed[0].details == {"error": said}


def test_an_error_is_its_own_requests_alone() -> None:
    heard = run(some(), Joint(lambda outcomes: [OSError("no host"), *outcomes[1:]]))
    ours, theirs = by_themselves(), heard[1:]
    assert heard[0] == ["no host", "no host"]
    assert theirs[:2] == ours[1:3]
    assert theirs[2][:2] == ours[3][:2]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), InputError("no such table")], ids=["Ctrl-C", "bad input"])
def test_what_ends_one_request_for_good_ends_all_and_leaves_none_open(error: BaseException) -> None:
    requests = [*some(), Asking("never", 1)]
    with pytest.raises(type(error)):
        run(requests, Joint(raising(error)), width=3)
    assert all(request.ended for request in requests if request.began)
    assert [request.context.query for request in requests if not request.began] == ["never"]


class Interrupted(Joint):
    def rerank(self, items: Any, context: Any, strategy: str) -> dict[str, float]:
        raise KeyboardInterrupt


def test_a_request_that_is_interrupted_is_closed() -> None:
    stopped = Asking("a", 2)
    with pytest.raises(KeyboardInterrupt):
        alone(stopped(), {"default": Interrupted()})
    assert stopped.ended
