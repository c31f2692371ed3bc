"""``ragtune serve`` as a process under load, with an upstream that fails: no document is lost, every ledger agrees.

``CHAOS_SERVER_SECONDS`` is the time of each scenario: 1 if unsaid, 60 in ``make chaos`` and for the table in
docs/howto/rerank-server.md. Run it with ``-s`` to see the table. It fails on counts and ledgers, and never on how long
something took.
"""

import asyncio
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import httpx2
import psutil
import pytest
import serve_process
from llm_server import Fault
from patience import HANG_S

PATH = "/v2/rerank"
JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class Answer:
    """What one request got: its status, the milliseconds that it took, and its body."""

    status: int
    ms: float
    text: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.text)


def connected(url: str, timeout_s: float) -> httpx2.AsyncClient:
    """A client of as many connections as there are requests at once."""
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
    return httpx2.AsyncClient(base_url=url, headers=JSON, timeout=timeout_s, limits=limits, verify=False)


async def answers(url: str, clients: list[Iterator[bytes]], seconds: float) -> list[Answer]:
    """What clients get who send one request after the other."""
    until = time.monotonic() + seconds
    async with connected(url, HANG_S) as http:
        return [seen for each in await asyncio.gather(*(_ask(http, one, until) for one in clients)) for seen in each]


async def _ask(http: httpx2.AsyncClient, requests: Iterator[bytes], until: float) -> list[Answer]:
    seen: list[Answer] = []
    while (begun := time.monotonic()) < until:
        answer = await http.post(PATH, content=next(requests))
        seen.append(Answer(answer.status_code, 1000.0 * (time.monotonic() - begun), answer.content))
    return seen


async def abandon(url: str, requests: Iterator[bytes], seconds: float) -> None:
    """A client who hangs up before the answer, again and again."""
    until = time.monotonic() + seconds
    async with connected(url, 0.2) as http:
        while time.monotonic() < until:
            with suppress(httpx2.TimeoutException):
                await http.post(PATH, content=next(requests))


SECONDS = float(os.environ.get("CHAOS_SERVER_SECONDS", "1"))
CLIENTS, DOCS, MS, HOGS = 50, 20, 1500.0, 12
COLUMNS = "scenario | requests | 5xx | p50, ms | p99 beyond `ms` | lost documents | billed / upstream | recovered, s"


def always(fault: Fault | None) -> Callable[[Any], None]:
    return lambda upstream: upstream.faults.extend([fault] * 100_000)


def mixed(upstream: Any) -> None:
    """All of the others' faults, one request after the other."""
    kinds = ["rate_limit", "server_error", "slow", "drop", "garbage"]
    faults = [None, *(Fault(kind, delay_s=0.5, status=503) for kind in kinds), Fault("slow", delay_s=3600.0)]
    upstream.faults.extend(faults * 20_000)


SCENARIOS: dict[str, Callable[[Any], None]] = {
    "instant": always(None),
    "0.2 s": always(Fault("slow", delay_s=0.2)),
    "2 s": always(Fault("slow", delay_s=2.0)),
    "dies mid-answer": always(Fault("drop")),
    "30% 503": lambda upstream: upstream.fail_randomly(0.3, kinds=("server_error",)),
    "garbage": always(Fault("garbage")),
    "429 storm": always(Fault("rate_limit", retry_after="1")),
    "hang": always(Fault("slow", delay_s=3600.0)),
    "all of these, mixed": mixed,
}


@dataclass
class Served:
    """A running ``ragtune serve``."""

    process: psutil.Process
    url: str
    memory: list[float] = field(default_factory=list)

    def rank(self, documents: list[str]) -> Any:
        return httpx2.post(f"{self.url}/v2/rerank", json={"query": "back", "documents": documents}, timeout=HANG_S)

    def metric(self, name: str) -> float:
        """A figure of ``/metrics``."""
        lines = httpx2.get(f"{self.url}/metrics", timeout=HANG_S).text.splitlines()
        (value,) = (line.rsplit(" ", 1)[1] for line in lines if line.startswith(f"ragtune_rerank_{name} "))
        return float(value)

    async def load(self, seconds: float, hogs: int = 0) -> list[Answer]:
        """The answers to all clients; resident memory is noted every second."""
        watching = asyncio.create_task(self._watch())
        leaving = [abandon(self.url, hog(number), seconds) for number in range(hogs)]
        asked = answers(self.url, [client(number) for number in range(CLIENTS)], seconds)
        seen, *_ = await asyncio.gather(asked, *leaving)
        watching.cancel()
        return seen

    async def _watch(self) -> None:
        while True:
            self.memory.append(self.process.memory_info().rss / 2**20)
            await asyncio.sleep(1.0)


def client(number: int) -> Iterator[bytes]:
    """Requests that nobody sent before."""
    return requests(number, DOCS, {"ms": MS})


def hog(number: int) -> Iterator[bytes]:
    return requests(1000 + number, 400, {"docs": None})


def requests(number: int, docs: int, budget: dict[str, float | None]) -> Iterator[bytes]:
    i = 0
    while True:
        i += 1
        texts = [f"{number} {i} text {j}" for j in range(docs)]
        yield json.dumps({"query": f"{number} {i}", "documents": texts, "budget": budget}).encode()


@contextmanager
def serving(*options: str) -> Iterator[Served]:
    with serve_process.serving("--store", "memory", "--docs", str(DOCS), "--batch-size", str(DOCS), *options) as server:
        yield Served(psutil.Process(server.process.pid), server.url)


@dataclass(frozen=True)
class Tally:
    """What clients saw of one scenario."""

    answers: list[Answer]

    @property
    def lost(self) -> int:
        """Documents that are missing from answers with status 200."""
        return sum(
            DOCS - len({one["index"] for one in answer.body["results"]})
            for answer in self.answers
            if answer.status == 200
        )

    @property
    def billed(self) -> int:
        bills = [answer.body["meta"]["billed_units"] for answer in self.answers if answer.status == 200]
        return sum(bill["search_units"] for bill in bills)

    @property
    def possible(self) -> int:
        """What the upstream may bill beyond: calls that were sent and got no whole answer."""
        accounts = [answer.body["ragtune"] for answer in self.answers if answer.status == 200]
        return sum(account.get("possible", {}).get("search_units", 0) for account in accounts)

    def row(self, name: str, bills: str, recovered_s: float, memory: list[float]) -> str:
        took = sorted(answer.ms for answer in self.answers)
        p50, p99 = took[len(took) // 2], took[int(0.99 * (len(took) - 1))]
        failed = sum(answer.status >= 500 for answer in self.answers) / len(took)
        warm = memory[len(memory) // 6]
        return (
            f"| {name} | {len(took)} | {failed:.0%} | {p50:.0f} | {p99 - MS:+.0f} ms | {self.lost} | {bills} "
            f"| {recovered_s:.1f} | {warm:.0f} / {memory[-1]:.0f} |"
        )

    def check(self) -> None:
        assert self.lost == 0
        assert {answer.status for answer in self.answers} == {200}


@pytest.fixture(scope="module", autouse=True)
def header() -> None:
    print(f"\n| {COLUMNS} | memory when warm / at the end, MB |\n|{'---|' * 9}")


@pytest.mark.parametrize("name", SCENARIOS)
def test_no_document_is_lost_and_every_bill_is_the_upstreams(name: str, llm_server: Any) -> None:
    SCENARIOS[name](llm_server)
    model = ["--model", llm_server.rerank_url("cohere"), "--upstream-model", "test"]
    with serving(*model) as server:
        seen = Tally(asyncio.run(server.load(SECONDS)))
        upstream = sum(request.search_units for request in llm_server.requests if request.status == 200)
        llm_server.faults.clear()
        llm_server.random_faults, back = None, time.monotonic()
        while not server.rank(["a", "b"]).json()["ragtune"]["reranked"]:
            time.sleep(0.05)
            assert time.monotonic() - back < 60.0
        recovered_s = time.monotonic() - back
        counted = server.metric("search_units_total")
        print(seen.row(name, f"{seen.billed} / {upstream}", recovered_s, server.memory))
    seen.check()
    assert counted == seen.billed + 1
    assert seen.billed <= upstream <= seen.billed + seen.possible


def test_clients_who_hang_up_take_a_local_model_from_nobody(tiny_cross_encoder: str) -> None:
    with serving("--model", tiny_cross_encoder) as server:
        seen = Tally(asyncio.run(server.load(SECONDS, HOGS)))
        back = time.monotonic()
        assert len(server.rank(["a", "b"]).json()["ragtune"]["reranked"]) == 2
        recovered_s = time.monotonic() - back
        print(seen.row("local model, abandoned clients", "none", recovered_s, server.memory))
        counted = server.metric('documents_total{outcome="scored"}')
    seen.check()
    scored = [len(answer.body["ragtune"]["reranked"]) for answer in seen.answers]
    assert max(scored) > 0
    assert sum(scored) + 2 <= counted
