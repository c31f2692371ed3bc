"""Clock, trace, context and meter of a request, and places for work with deadlines."""

from contextlib import suppress
from types import SimpleNamespace

import pytest
from patience import HANG_S

from ragtune import CostBudget
from ragtune.core.request import places as module
from ragtune.core.request.clock import MonotonicClock, VirtualClock
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.request.places import Places
from ragtune.core.request.trace import ControllerTrace


def context(query_id: str = "q1", seed: int = 0) -> RAGtuneContext:
    return RAGtuneContext(query="text", query_id=query_id, seed=seed, tracker=CostBudget().create_tracker())


def draw(ctx: RAGtuneContext, purpose: str = "sample") -> list[int]:
    return ctx.rng(purpose).integers(0, 2**31, size=4).tolist()


def test_randomness_depends_on_seed_query_and_purpose_only():
    assert draw(context()) == draw(context())
    different = [draw(context()), draw(context("q2")), draw(context(seed=1)), draw(context(), "other")]
    assert len({tuple(values) for values in different}) == 4


def test_memory_is_made_once_an_owner_and_request():
    owner, other, ctx = object(), object(), context()
    made: list[int] = []
    for _ in range(3):
        assert ctx.remember(owner, lambda: made.append(1) or ["mine"]) == ["mine"]
    assert made == [1]
    assert ctx.remember(other, lambda: ["other's"]) == ["other's"]
    assert context().remember(owner, lambda: ["new"]) == ["new"]


def test_memory_is_not_inherited_from_an_owner_that_is_gone():
    ctx = context()
    states = [ctx.remember(object(), lambda i=i: i) for i in range(50)]
    assert states == list(range(50))


def test_rounds_of_one_request_share_its_memory():
    owner, ctx = object(), context()
    ctx.remember(owner, lambda: "state")
    rewrite = ctx.model_copy(update={"query": "other", "round": "rewrite_0"})
    assert rewrite.remember(owner, lambda: "again") == "state"


def test_a_virtual_clock_adds_exactly():
    clock = VirtualClock()
    for _ in range(3):
        clock.advance(0.1)
    assert clock.now_ms() == 0.3


def test_a_paused_clock_stands_still_and_leaves_the_pause_out_even_if_the_work_in_it_fails(machine):
    clock = MonotonicClock()
    with suppress(RuntimeError), clock.paused(), clock.paused():
        machine.work(8000.0)
        assert clock.now_ms() == 0.0
        raise RuntimeError("no such model")
    assert clock.now_ms() == 0.0
    machine.work(500.0)
    assert clock.now_ms() == 500.0


def test_events_are_stamped_from_the_start_of_the_trace():
    clock = VirtualClock()
    clock.advance(100.0)
    trace = ControllerTrace(query_id="q", clock=clock)
    trace.add("budget", "deny_rerank", reason="x")
    clock.advance(3.0)
    trace.add("controller", "stop")
    assert [(e.timestamp, e.component, e.action, e.details) for e in trace.events] == [
        (0.0, "budget", "deny_rerank", {"reason": "x"}),
        (3.0, "controller", "stop", {}),
    ]


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The time, as a test sets it."""
    now = SimpleNamespace(s=1000.0)
    monkeypatch.setattr(module.time, "monotonic", lambda: now.s)
    return now


def hold(places: Places, now, held_s: float, within_s: float, *, gave_up: bool = False) -> bool:
    """Whether work got a place, which it has given back."""
    if not places.take(now.s + within_s):
        return False
    now.s += held_s
    places.leave(held_s, gave_up=gave_up)
    return True


def test_work_that_would_get_its_place_after_its_deadline_is_refused_at_once(now) -> None:
    places = Places(1)
    assert hold(places, now, 4.0 * HANG_S, 60.0)
    assert places.take(now.s + 60.0)
    assert not places.take(now.s + HANG_S)  # or it would hang
    places.leave(0.1)
    assert places.take(now.s + 1.0)


def test_a_pause_refuses_what_is_due_before_its_end(now) -> None:
    places = Places(2)
    places.pause(5.0)
    assert not places.take(now.s + 4.0)
    now.s += 5.0
    assert places.take(now.s + 4.0)


def test_after_three_that_were_given_up_only_one_in_two_seconds_tries_so_short_a_time(now) -> None:
    places = Places(2)
    assert all(hold(places, now, 1.0, 1.0, gave_up=True) for _ in range(3))
    assert not places.take(now.s + 1.0)
    assert places.take(now.s + 3.0)  # it has more time
    places.leave()
    now.s += 2.1
    assert places.take(now.s + 1.0)
    assert not places.take(now.s + 1.0)
    places.leave(0.5)
    assert hold(places, now, 0.5, 1.0)
    assert hold(places, now, 0.5, 1.0)
