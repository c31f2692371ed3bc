from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from ragtune.core.errors import ConfigError
from ragtune.core.request.clock import MonotonicClock, VirtualClock


def test_a_virtual_clock_moves_only_when_told():
    clock = VirtualClock(start_ms=5.0)
    assert clock.now_ms() == clock.now_ms() == 5.0
    clock.advance(2.5)
    assert clock.now_ms() == 7.5


def test_a_virtual_clock_adds_exactly():
    clock = VirtualClock()
    for _ in range(3):
        clock.advance(0.1)
    assert clock.now_ms() == 0.3


@pytest.mark.parametrize("ms", [-1.0, -math.inf, math.nan])
@pytest.mark.parametrize("clock", [VirtualClock, MonotonicClock])
def test_no_clock_goes_back(clock, ms):
    with pytest.raises(ConfigError, match="allowed is a number >= 0"):
        clock().advance(ms)


def test_the_monotonic_clock_never_goes_back_and_adds_recorded_time():
    clock = MonotonicClock()
    before = clock.now_ms()
    clock.advance(1e9)
    assert before + 1e9 <= clock.now_ms() < before + 1.1e9


def test_a_paused_monotonic_clock_stands_still_and_leaves_the_pause_out(monkeypatch):
    now = SimpleNamespace(seconds=0.0)
    monkeypatch.setattr("ragtune.core.request.clock.time.perf_counter", lambda: now.seconds)
    clock = MonotonicClock()

    def load(fails):
        with clock.paused(), clock.paused():
            now.seconds += 8.0
            assert clock.now_ms() == 0.0
            if fails:
                raise RuntimeError("no such model")

    load(fails=False)
    with pytest.raises(RuntimeError):
        load(fails=True)
    assert clock.now_ms() == 0.0
    now.seconds += 0.5
    assert clock.now_ms() == 500.0


def test_a_pause_of_a_virtual_clock_changes_nothing():
    clock = VirtualClock()
    with clock.paused():
        clock.advance(5.0)
    assert clock.now_ms() == 5.0
