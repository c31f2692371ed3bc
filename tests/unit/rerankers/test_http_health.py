"""What counts against a rerank server, and how soon one that is back is asked again (rule F3)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ragtune.facade.reranker import BudgetedReranker
from ragtune.rerankers.http.reranker import HttpReranker
from tests.support.llm_server import Fault

TEXTS = [f"text {i}" for i in range(6)]


@pytest.fixture
def make(llm_server: Any) -> Iterator[Callable[[], BudgetedReranker]]:
    """Makes a ranker over the server, with all limits on failures at their defaults."""
    made: list[HttpReranker] = []

    def one() -> BudgetedReranker:
        made.append(HttpReranker(llm_server.rerank_url("cohere"), "test", cache_dir=None, max_retries=0))
        ranker = BudgetedReranker(made[-1], docs=6, policy="fixed_depth")
        ranker.warm_up()
        return ranker

    llm_server.relevance = lambda query, text: float(text.split()[1]) - 3.0
    yield one
    for reranker in made:
        reranker.close()


def test_requests_that_ran_out_of_their_own_time_take_the_model_from_nobody(llm_server: Any, make: Any) -> None:
    ranker = make()
    llm_server.faults[:] = [Fault("slow", delay_s=1.0)] * 8
    for _ in range(8):
        hasty = ranker.rank("query", TEXTS, budget={"ms": 60})
        assert not any(document.reranked for document in hasty)
        assert [document.index for document in hasty] == list(range(6))
    assert ranker.closed is None
    llm_server.faults.clear()
    patient = ranker.rank("query", TEXTS)
    assert [document.index for document in patient] == [5, 4, 3, 2, 1, 0]


def test_the_first_good_answer_comes_within_three_seconds_of_the_servers_return(llm_server: Any, make: Any) -> None:
    ranker = make()
    llm_server.faults[:] = [Fault("server_error")] * 999
    for _ in range(20):
        assert not any(document.reranked for document in ranker.rank("query", TEXTS))
    assert ranker.closed is not None
    assert len(llm_server.requests) < 10
    llm_server.faults.clear()
    back = time.monotonic()
    while not ranker.rank("query", TEXTS)[0].reranked:
        time.sleep(0.02)
        assert time.monotonic() - back < 3.0
    assert ranker.closed is None
