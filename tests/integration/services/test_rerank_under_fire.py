"""The rerank API where clients leave, hurry or ask for too much, and where its upstream fails."""

import json
import socket
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest
from llm_server import Fault
from patience import HANG_S, wait_until
from rerank_server import KEY, ask, serving

from ragtune.canonical.permit import CancelledWorkError, Permit
from ragtune.core.errors import ConfigError
from ragtune.rerankers.function import FunctionReranker
from ragtune.rerankers.http.reranker import HttpReranker
from ragtune.services.payloads import Budget, RerankQuery
from ragtune.services.rerank import RerankServer
from ragtune.services.turns import Turns

PATH = "/v2/rerank"
TEXTS = [f"text {i}" for i in range(20)]


class SlowModel:
    """Takes 5 ms a document, and counts those that it has read."""

    def __init__(self) -> None:
        self.read = 0

    def __call__(self, query: str, texts: Sequence[str]) -> list[float]:
        time.sleep(0.005 * len(texts))
        self.read += len(texts)
        return [1.0 / (1 + len(text)) for text in texts]


def abandon(url: str, request: Any) -> None:
    """Send a request and hang up."""
    body = json.dumps(request).encode()
    head = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", int(url.rsplit(":", 1)[1]))) as connection:
        connection.sendall(head.encode() + body)


def metrics(url: str) -> dict[str, float]:
    lines = httpx2.get(f"{url}/metrics", headers={"X-API-Key": KEY}).text.splitlines()
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines if not line.startswith("#")}


def hog(i: int, documents: int = 400) -> dict[str, Any]:
    return {"query": f"hog {i}", "documents": [f"{i} {j}" for j in range(documents)], "budget": {"docs": None}}


@pytest.mark.parametrize("is_abandoned", [True, False])
def test_small_requests_are_answered_beside_twelve_large_ones(is_abandoned: bool) -> None:
    model = SlowModel()
    ranker = RerankServer(FunctionReranker(model), "slow", budget={"docs": 10}, is_local=True)
    with serving(ranker) as url, ThreadPoolExecutor(12) as others:
        if is_abandoned:
            for i in range(12):
                abandon(url, hog(i))
        else:
            large = [others.submit(ask, url, PATH, hog(i)) for i in range(12)]
            wait_until(lambda: model.read > 0)
        for i in range(3):
            answer = ask(url, PATH, {"query": f"small {i}", "documents": TEXTS})
            assert answer.status_code == 200
            assert answer.json()["ragtune"]["spent"]["docs"] == 10, answer.json()["ragtune"]
        if is_abandoned:
            assert model.read < 12 * 400 / 4
        else:
            assert len(ask(url, PATH, hog(12, 30)).json()["ragtune"]["reranked"]) == 30
            assert not any(one.done() for one in large)
            ranker.stop()  # else they take 24 s
            assert [len(one.result(HANG_S).json()["results"]) for one in large] == [400] * 12


def test_a_request_that_would_take_longer_than_the_server_allows_is_answered_with_the_scores_so_far() -> None:
    model = SlowModel()
    with serving(RerankServer(FunctionReranker(model), "slow", is_local=True, time_s=0.3)) as url:
        first = ask(url, PATH, hog(0))
        assert (first.status_code, len(first.json()["results"])) == (200, 400)
        read = model.read
        assert 0 < len(first.json()["ragtune"]["reranked"]) <= read < 400
        assert ask(url, PATH, {"query": "small", "documents": TEXTS[:5]}).status_code == 200
        assert model.read == read + 5


def test_a_model_that_hangs_costs_an_answer_its_scores_and_not_its_time() -> None:
    goes_on = threading.Event()

    def hangs(query: str, texts: Sequence[str]) -> list[float]:
        goes_on.wait(HANG_S)
        return [0.5] * len(texts)

    with serving(RerankServer(FunctionReranker(hangs), "hangs", is_local=True, time_s=0.3)) as url:
        try:
            answers = [ask(url, PATH, {"query": "tea", "documents": TEXTS}) for _ in range(3)]
        finally:
            goes_on.set()
    for answer in answers:
        assert (answer.status_code, [one["index"] for one in answer.json()["results"]]) == (200, list(range(20)))
        told = answer.json()["ragtune"]["answered_by"], answer.headers["x-ragtune-answered-by"]
        assert told == ("first stage", "first stage")


def test_a_request_can_lower_the_operators_caps_and_neither_raise_nor_lift_them() -> None:
    ranker = RerankServer(
        FunctionReranker(SlowModel()), "slow", budget={"docs": 4}, caps={"docs": 8, "ms": 1e6}, batch_size=2
    )

    def scored(budget: dict[str, Any] | None) -> int:
        answer = ask(url, PATH, {"query": "tea", "documents": TEXTS, "budget": budget}).json()
        return len(answer["ragtune"]["reranked"])

    with serving(ranker) as url:
        assert [scored(b) for b in (None, {"docs": 2}, {"docs": 8}, {"docs": 20}, {"docs": None}, {"ms": None})] == [
            4, 2, 8, 8, 8, 4,
        ]  # fmt: skip


def upstream(llm_server: Any, **options: Any) -> HttpReranker:
    options = {"max_retries": 0, "concurrency": 32, "cache_dir": None, **options}
    return HttpReranker(llm_server.rerank_url("cohere"), "test", **options)


def test_the_time_that_a_request_waits_for_its_turn_is_part_of_its_limit(llm_server: Any) -> None:
    ranker = RerankServer(upstream(llm_server), "m", budget={"ms": 60_000.0})
    request = RerankQuery(query="tea", documents=tuple(TEXTS))
    permit = Permit()
    with permit.used():
        assert ranker.rank(request).cost.docs == 20
        sent = len(llm_server.requests)
        permit._since -= 61.0
        ranking = ranker.rank(request)
    assert [one.index for one in ranking] == list(range(20))
    assert (ranking.cost.docs, len(llm_server.requests)) == (0, sent)
    ranker.close()


def test_requests_that_fall_due_together_end_one_after_the_other_within_their_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 1000.0)
    turns, left_ms = Turns(), []
    with ExitStack() as under_way:
        for _ in range(40):
            left_ms.append(under_way.enter_context(turns.within(1000.0)))
            under_way.enter_context(turns.away())
    assert left_ms[:3] == pytest.approx([980.0, 960.0, 940.0])
    assert left_ms[25:] == pytest.approx([500.0] * 15)
    with turns.within(10.0) as hurried:
        assert hurried == pytest.approx(9.0)


@pytest.mark.parametrize(("limits_s", "wanted"), [((30, 60, 20, 10), [3, 2, 0, 1]), ((30, 30, 30, 30), [0, 1, 2, 3])])
def test_the_request_with_the_earliest_limit_is_worked_on_first_and_of_equal_ones_that_which_came_first(
    limits_s: Sequence[int], wanted: Sequence[int]
) -> None:
    turns, order = Turns(), []

    def work(number: int) -> None:
        with turns.within(1000.0 * limits_s[number]):
            order.append(number)

    with ThreadPoolExecutor(4) as threads, turns.within(1000.0):
        for number in range(4):
            threads.submit(work, number)
            wait_until(lambda number=number: len(turns._turn._waiting) == number + 1)  # type: ignore[misc]
    assert order == wanted


def test_a_request_whose_time_would_be_over_before_its_turn_gets_the_first_stages_order_at_once() -> None:
    ranker = RerankServer(FunctionReranker(SlowModel()), "slow")
    scores = (1.0, 3.0, None, 2.0)
    request = RerankQuery(query="tea", documents=tuple(TEXTS[:4]), scores=scores, budget=Budget(ms=2.0))
    with ThreadPoolExecutor(1) as threads, ranker._turns.within(60_000.0):
        ranking = threads.submit(ranker.rank, request).result(HANG_S)
    assert [one.index for one in ranking] == [1, 3, 0, 2]
    assert (ranking.cost.calls, ranking.stop.reason, ranking.hops[0].outcome) == (0, "late", "late")
    assert "works on other requests" in ranking.warnings[0]
    assert ranker.rank(request.model_copy(update={"budget": None})).answered_by == "slow"
    ranker.close()


def test_a_request_whose_client_hangs_up_waits_for_no_turn() -> None:
    turns, permit = Turns(), Permit()

    def work() -> None:
        with permit.used(), turns.within(1000.0 * HANG_S):
            raise AssertionError("it has a turn")

    with ThreadPoolExecutor(1) as threads, turns.within(1000.0):
        waiting = threads.submit(work)
        wait_until(lambda: len(turns._turn._waiting) == 1)
        permit.withdraw()
        permit.interrupt()
        with pytest.raises(CancelledWorkError):
            waiting.result(HANG_S)
        assert not turns._turn._waiting
    with turns.within(1000.0):
        pass


def test_a_reranker_that_cannot_be_used_is_not_the_requests_fault_and_no_path_is_told(tmp_path: Path) -> None:
    def broken(query: str, texts: Sequence[str]) -> list[float]:
        raise ConfigError(f"the score cache {tmp_path} cannot be used")

    with serving(RerankServer(FunctionReranker(broken), "m")) as url:
        answer = ask(url, PATH, {"query": "tea", "documents": TEXTS})
    assert (answer.status_code, [one["index"] for one in answer.json()["results"]]) == (200, list(range(20)))
    assert str(tmp_path) not in answer.text
    assert "the server's log says why" in answer.text


@pytest.mark.parametrize("is_allowed", [False, True])
def test_a_redirect_is_refused_unless_it_is_allowed(llm_server: Any, is_allowed: bool) -> None:
    llm_server.faults += [Fault("redirect")]
    ranker = RerankServer(upstream(llm_server, follow_redirects=is_allowed), "m")
    found = ranker.rank(RerankQuery(query="tea", documents=tuple(TEXTS)))
    assert len(llm_server.requests) == 1 + is_allowed
    assert [one.reranked for one in found] == [is_allowed] * 20
    warning = f"redirects to http://localhost:{llm_server.port}, which is not followed"
    assert (warning in " ".join(found.warnings)) != is_allowed


def test_every_ledger_agrees_with_the_upstreams_whatever_fails(llm_server: Any) -> None:
    kinds = ("server_error", "rate_limit", "garbage", "drop", "unauthorized")
    llm_server.fail_randomly(0.4, kinds=kinds)
    billed, spent = [], []

    def one(i: int) -> None:
        answer = ask(url, PATH, {"query": f"q{i % 20}", "documents": [f"{i} {text}" for text in TEXTS]}).json()
        billed.append((answer["meta"]["billed_units"]["search_units"], answer["meta"]["tokens"]["input_tokens"]))
        spent.append((answer["ragtune"]["spent"].get("search_units", 0), answer["ragtune"]["spent"]["tokens"]))
        assert sorted(one["index"] for one in answer["results"]) == list(range(20))

    ranker = RerankServer(upstream(llm_server, backoff_initial_s=0.0), "m", budget={"docs": 15}, time_s=20.0)
    with serving(ranker) as url, ThreadPoolExecutor(8) as clients:
        list(clients.map(one, range(120)))
        figures = metrics(url)
    units = sum(request.search_units for request in llm_server.requests)
    assert 0 < units < 3 * 120
    assert billed == spent
    assert sum(each for each, _ in billed) == units == figures["ragtune_rerank_search_units_total"]
    assert sum(each for _, each in billed) == figures["ragtune_rerank_tokens_total"]


def test_calls_that_were_never_sent_are_charged_to_nobody(llm_server: Any) -> None:
    ranker = RerankServer(upstream(llm_server, breaker_failures=1, breaker_cooldown_s=HANG_S), "m", time_s=20.0)
    llm_server.faults += [Fault("server_error")]
    with serving(ranker) as url:
        first, second = (ask(url, PATH, {"query": "tea", "documents": TEXTS}).json() for _ in range(2))
    assert (first["ragtune"]["spent"]["calls"], first["meta"]["billed_units"]["search_units"]) == (1, 0)
    assert (second["ragtune"]["spent"]["calls"], second["meta"]["billed_units"]["search_units"]) == (0, 0)
    assert len(llm_server.requests) == 1
