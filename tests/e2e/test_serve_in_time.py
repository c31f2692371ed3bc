"""``ragtune serve``: an answer in time under load, fallbacks, exact bills, and daily limits of keys."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
from llm_server import Fault
from patience import HANG_S
from serve_process import Served, serving, serving_here

DOCUMENTS = [f"{'green tea, steamed' if i == 4 else 'a ship'} {i}" for i in range(8)]
DEAD = "http://127.0.0.1:9/v2/rerank"  # nothing listens there


def ask(server: Served, key: str = "", **fields: Any) -> httpx2.Response:
    body = json.dumps({"query": "green tea", "documents": DOCUMENTS, **fields})
    headers = {"Content-Type": "application/json", "X-API-Key": key}
    return httpx2.post(f"{server.url}/v2/rerank", content=body, headers=headers, timeout=HANG_S)


def metric(server: Served, name: str) -> float:
    lines = httpx2.get(f"{server.url}/metrics", timeout=HANG_S).text.splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(f"ragtune_rerank_{name}"))


def upstream(llm_server: Any, *options: str) -> list[str]:
    named = ["--model", llm_server.rerank_url("cohere"), "--upstream-model", "test", "--batch-size", "8"]
    return ["--store", "memory", *named, *options]


def test_each_fallback_answers_what_those_before_it_do_not(llm_server: Any, tiny_cross_encoder: str) -> None:
    second = llm_server.rerank_url("jina")
    options = ["--fallback", f"{second} dialect=jina model=second", "--fallback", tiny_cross_encoder]
    with serving_here("--store", "memory", "--model", DEAD, *options, "--docs", "8", "--retry-after", "0") as server:
        first = ask(server)
        llm_server.random_faults = 1.0, 0, ("unauthorized",)
        last = ask(server)
        failed = metric(server, 'hops_total{model="second",outcome="failed"}')
    told = first.json()["ragtune"]
    assert (told["answered_by"], first.json()["results"][0]["index"]) == ("second", 4)
    assert [(hop["model"], hop["outcome"]) for hop in told["hops"]] == [(DEAD, "failed"), ("second", "scored")]
    assert "possible" not in told  # nothing has reached the dead one
    assert first.headers["x-ragtune-hops"] == f"{DEAD}=failed, second=scored"
    assert last.headers["x-ragtune-answered-by"] == last.json()["ragtune"]["answered_by"] == tiny_cross_encoder
    assert last.json()["ragtune"]["spent"]["docs"] == 8
    assert failed == 1


def test_what_an_upstream_may_bill_beyond_its_answers_is_in_the_answer(llm_server: Any) -> None:
    with serving_here(*upstream(llm_server)) as server:
        llm_server.faults += [Fault("drop"), None]
        retried = ask(server).json()
        llm_server.faults += [Fault("slow", delay_s=0.6)]
        given_up = ask(server, budget={"ms": 400}).json()
        llm_server.faults += [Fault("server_error", status=413)]
        split = ask(server).json()
        possible = metric(server, "possible_search_units_total")
    bills = [answer["meta"]["billed_units"]["search_units"] for answer in (retried, given_up, split)]
    assert bills == [1, 0, 2]
    assert [answer["ragtune"].get("possible", {}).get("search_units") for answer in (retried, given_up, split)] == [
        1, 1, None,
    ]  # fmt: skip
    assert (len(retried["ragtune"]["reranked"]), len(given_up["ragtune"]["reranked"])) == (8, 0)
    assert [len(request.body["documents"]) for request in llm_server.requests[3:]] == [8, 4, 4]
    assert possible == 2


def test_no_request_takes_longer_than_it_may_however_slow_the_upstream_is(llm_server: Any) -> None:
    llm_server.faults += [Fault("slow", delay_s=0.7)] * 60
    options = ["--timeout", "3", "--upstream-concurrency", "2"]
    with serving_here(*upstream(llm_server, *options)) as server, ThreadPoolExecutor(20) as clients:
        answers = list(clients.map(lambda i: ask(server, query=f"green tea {i}"), range(40)))
    assert {answer.status_code for answer in answers} == {200}
    told = [answer.json()["ragtune"] for answer in answers]
    assert {len(answer.json()["results"]) for answer in answers} == {8}
    by_model = [one for one in told if one["answered_by"] != "first stage"]
    assert 0 < len(by_model) < 40
    billed = sum(one["spent"].get("search_units", 0) for one in told)
    assert billed == len(by_model)
    assert billed <= len(llm_server.requests) <= billed + sum("possible" in one for one in told)


def test_what_one_request_learns_of_retry_after_holds_for_all(llm_server: Any) -> None:
    llm_server.faults += [Fault("rate_limit", retry_after="50")]
    with serving_here(*upstream(llm_server)) as server:
        answers = [ask(server, query=f"green tea {i}", budget={"ms": 5000}) for i in range(3)]
    assert len(llm_server.requests) == 1
    assert [answer.json()["ragtune"]["answered_by"] for answer in answers] == ["first stage"] * 3
    assert [one["index"] for one in answers[2].json()["results"]] == list(range(8))


def test_calls_that_wait_for_retry_after_and_are_never_sent_use_up_no_limit(llm_server: Any, tmp_path: Path) -> None:
    llm_server.faults += [Fault("rate_limit", retry_after="3")]
    limit = ["--retry-after", "0.1", "--usage", str(tmp_path / "usage.db"), "--key-calls", "3"]
    with serving_here(*upstream(llm_server, *limit)) as server:
        ask(server, budget={"ms": 1000})
        unsent = [ask(server, query=f"green tea {i}", budget={"ms": 1000}).json()["ragtune"] for i in range(4)]
        errors = metric(server, "upstream_errors_total")
        later = ask(server, query="black tea").json()["ragtune"]
    assert [one["spent"].get("calls", 0) for one in unsent] == [0] * 4
    assert (errors, later["answered_by"]) == (1, "test")
    assert len(llm_server.requests) == 2


def test_a_key_over_its_limit_of_the_day_gets_the_first_stages_order_or_429(llm_server: Any, tmp_path: Path) -> None:
    first, second = "the-first-of-two-keys", "the-second-of-two-keys"
    options = upstream(llm_server, "--usage", str(tmp_path / "usage.db"), "--key-docs", "10")
    with serving(*options, RAGTUNE_API_KEY=f"{first} {second}") as server:
        whole, part = (ask(server, first).json()["ragtune"] for _ in range(2))
        assert [len(one["reranked"]) for one in (whole, part)] == [8, 2]
        server.process.kill()
        server.process.wait()
    with serving_here(*options, RAGTUNE_API_KEY=f"{first} {second}") as server:
        over, other = ask(server, first).json(), ask(server, second).json()["ragtune"]
        assert ask(server, "some-other-key-of-mine").status_code == 401
    assert (over["ragtune"]["stop"]["reason"], over["ragtune"]["answered_by"]) == ("over_limit", "first stage")
    assert [one["index"] for one in over["results"]] == list(range(8))
    assert len(other["reranked"]) == 8
    with serving_here(*options, "--over-limit", "429", RAGTUNE_API_KEY=f"{first} {second}") as server:
        refused = ask(server, first)
        assert (refused.status_code, ask(server, second).status_code) == (429, 200)
    assert 0 < int(refused.headers["retry-after"]) <= 24 * 3600
    assert len(llm_server.requests) == 4
