from __future__ import annotations

import signal
import threading

import pytest

from ragtune.llm.transport import map_all


def test_any_other_error_is_raised_after_all_have_ended() -> None:
    done: list[int] = []

    def call(number: int) -> None:
        done.append(number)
        if number in (3, 7):
            raise ValueError(number)

    with pytest.raises(ValueError, match="3"):
        map_all(call, range(10), 3)
    assert sorted(done) == list(range(10))


def test_an_interrupt_waits_for_nothing_and_begins_nothing_more() -> None:
    begun: list[int] = []
    release = threading.Event()

    def hang(number: int) -> None:
        begun.append(number)
        if number == 1:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)  # which waits
        release.wait(60)

    before = set(threading.enumerate())
    try:
        with pytest.raises(KeyboardInterrupt):
            map_all(hang, range(5), 2)
    finally:
        release.set()
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
    assert sorted(begun) == [0, 1]
