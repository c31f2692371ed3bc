"""Places for work with deadlines."""

from __future__ import annotations

import time

import pytest

from ragtune.core.request import places as module
from ragtune.core.request.places import Places


class Now:
    """The time, as a test sets it."""

    def __init__(self) -> None:
        self.s = 1000.0


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Now:
    now = Now()
    monkeypatch.setattr(module.time, "monotonic", lambda: now.s)
    return now


def hold(places: Places, now: Now, held_s: float, within_s: float, *, gave_up: bool = False) -> bool:
    """Whether work got a place, which it has given back."""
    if not places.take(now.s + within_s):
        return False
    now.s += held_s
    places.leave(held_s, gave_up=gave_up)
    return True


def test_work_that_would_get_its_place_after_its_deadline_is_refused_at_once(now: Now) -> None:
    places = Places(1)
    assert hold(places, now, 4.0, 60.0)
    assert places.take(now.s + 60.0)
    begun = time.perf_counter()
    assert not places.take(now.s + 1.0)
    assert time.perf_counter() - begun < 1.0
    places.leave(0.1)
    assert places.take(now.s + 1.0)


def test_a_pause_refuses_what_is_due_before_its_end(now: Now) -> None:
    places = Places(2)
    places.pause(5.0)
    assert not places.take(now.s + 4.0)
    now.s += 5.0
    assert places.take(now.s + 4.0)


def test_after_three_that_were_given_up_only_one_in_two_seconds_tries_so_short_a_time(now: Now) -> None:
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
