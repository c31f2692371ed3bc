from __future__ import annotations

import signal
import threading

import pytest

from ragtune.llm.threads import map_in_threads


def test_results_come_in_the_order_of_the_inputs() -> None:
    assert map_in_threads(lambda n: n * n, range(50), 4) == [n * n for n in range(50)]
    assert map_in_threads(lambda n: n, [], 4) == []


def test_the_first_error_is_raised_after_all_have_ended() -> None:
    done: list[int] = []

    def work(number: int) -> None:
        done.append(number)
        if number in (3, 7):
            raise ValueError(number)

    with pytest.raises(ValueError, match="3"):
        map_in_threads(work, range(10), 3)
    assert sorted(done) == list(range(10))


def test_an_interrupt_waits_for_nothing_and_begins_nothing_more() -> None:
    begun: list[int] = []
    release = threading.Event()

    def hang(number: int) -> None:
        begun.append(number)
        if number == 1:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)  # which waits
        release.wait(60)

    try:
        with pytest.raises(KeyboardInterrupt):
            map_in_threads(hang, range(5), 2)
    finally:
        release.set()
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and thread.daemon and thread.name.endswith("(run)"):
            thread.join(10)
    assert sorted(begun) == [0, 1]
