"""The rerank server under load with an upstream that fails: no document is lost, and every ledger agrees.

``CHAOS_SERVER_SECONDS`` is the time of each scenario (2 if unsaid; 60 for the table in docs/howto/rerank-server.md).
Run it with ``-s`` to see the table. It fails on counts and ledgers, and never on how long something took.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import psutil
import pytest
from rerank_server import KEY, ask, serving

from ragtune.adapters.rerank import RerankServer
from ragtune.rerankers.http.reranker import HttpReranker
from tests.support.llm_server import Fault

SECONDS = float(os.environ.get("CHAOS_SERVER_SECONDS", "2"))
CLIENTS, DOCS, MS = 50, 20, 1500.0


def always(fault: Fault | None) -> Callable[[Any], None]:
    return lambda upstream: upstream.faults.extend([fault] * 100_000)


SCENARIOS: dict[str, Callable[[Any], None]] = {
    "instant": always(None),
    "0.2 s": always(Fault("slow", delay_s=0.2)),
    "2 s": always(Fault("slow", delay_s=2.0)),
    "dies mid-answer": always(Fault("drop")),
    "30% 503": lambda upstream: upstream.fail_randomly(0.3, kinds=("server_error",)),
    "garbage": always(Fault("garbage")),
    "429 storm": always(Fault("rate_limit", retry_after="1")),
    "hang": always(Fault("slow", delay_s=3600.0)),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_no_document_is_lost_and_every_bill_is_the_upstreams(name: str, llm_server: Any) -> None:
    reranker = HttpReranker(llm_server.rerank_url("cohere"), "test", concurrency=32, cache_dir=None)
    ranker = RerankServer(reranker, "m", budget={"docs": DOCS}, batch_size=DOCS, time_s=27.0)
    took: list[float] = []
    statuses: list[int] = []
    lost = billed = given_up = 0

    def client(number: int) -> list[tuple[int, float, int, int, bool]]:
        seen, i = [], 0
        while time.monotonic() < until:
            i += 1
            texts = [f"{number} {i} text {j}" for j in range(DOCS)]
            begun = time.monotonic()
            answer = ask(url, "/v2/rerank", {"query": f"{number} {i}", "documents": texts, "budget": {"ms": MS}})
            ms, said = 1000.0 * (time.monotonic() - begun), answer.json()
            found = {one["index"] for one in said["results"]} if answer.status_code == 200 else set(range(DOCS))
            units = said["meta"]["billed_units"]["search_units"] if answer.status_code == 200 else 0
            was_given_up = "no whole answer within" in answer.text
            seen.append((answer.status_code, ms, DOCS - len(found), units, was_given_up))
        return seen

    SCENARIOS[name](llm_server)
    with serving(ranker) as url, ThreadPoolExecutor(CLIENTS) as clients:
        until = time.monotonic() + SECONDS
        for seen in clients.map(client, range(CLIENTS)):
            for status, ms, missing, units, was_given_up in seen:
                given_up += was_given_up
                statuses.append(status)
                took.append(ms)
                lost, billed = lost + missing, billed + units
        upstream = sum(request.search_units for request in llm_server.requests if request.status == 200)
        llm_server.faults.clear()
        llm_server.random_faults, back = None, time.monotonic()
        while not ask(url, "/v2/rerank", {"query": "back", "documents": ["a", "b"]}).json()["ragtune"]["reranked"]:
            time.sleep(0.05)
            assert time.monotonic() - back < 60.0
        recovered = time.monotonic() - back
        counted = httpx2.get(f"{url}/metrics", headers={"X-API-Key": KEY}).text
    reranker.close()
    took.sort()
    failed = sum(status >= 500 for status in statuses) / len(statuses)
    p50, p99 = took[len(took) // 2], took[int(0.99 * (len(took) - 1))]
    print(
        f"\n| {name} | {len(took)} | {failed:.0%} | {p50:.0f} | {p99 - MS:+.0f} | {lost} | {billed} / {upstream} "
        f"| {recovered:.1f} | {psutil.Process().memory_info().rss / 2**20:.0f} |"
    )
    assert lost == 0
    assert not any(status >= 500 and status != 503 for status in statuses)
    assert f"ragtune_rerank_search_units_total {float(billed + 1)}" in counted
    assert billed <= upstream <= billed + given_up  # nobody is told what an upstream bills for a call that was given up
