"""However a request is made, what it costs to refuse it is bounded, and the event loop does not pay for it."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from types import SimpleNamespace
from typing import cast

import pytest
from patience import HANG_S
from starlette.testclient import TestClient

from ragtune.canonical.service import RagService
from ragtune.services.limits import Runner, ServerLimits

JSON = {"Content-Type": "application/json"}


def unknown(count: int) -> bytes:
    return json.dumps({"content": "x", **{f"k{i}": 0 for i in range(count)}}).encode()


def test_whoever_watches_over_the_server_waits_for_none_of_the_event_loops_threads() -> None:
    is_over = threading.Event()

    async def check(runner: Runner) -> None:
        threads = 2 * (os.cpu_count() or 1) + 40  # more than the event loop's own pool has
        flood = [asyncio.create_task(asyncio.to_thread(is_over.wait, HANG_S)) for _ in range(threads)]
        await asyncio.sleep(0)
        try:
            await runner.check()
        finally:
            is_over.set()
            await asyncio.gather(*flood)

    asked: list[bool] = []
    runner = Runner(cast(RagService, SimpleNamespace(check=lambda: asked.append(is_over.is_set()))), ServerLimits())
    asyncio.run(check(runner))
    runner.close()
    assert asked == [False]


def test_only_so_many_errors_are_looked_at(client: TestClient) -> None:
    few = client.post("/v1/normalize", content=unknown(30), headers=JSON).json()
    assert (few["detail"], len(few["errors"])) == ("/k0: Extra inputs are not permitted, and 29 more", 20)
    many = client.post("/v1/normalize", content=unknown(20_000), headers=JSON).json()
    assert many["detail"].startswith("20000 ")
    assert "errors" not in many


def test_a_list_is_checked_up_to_its_first_error(client: TestClient) -> None:
    flood = client.post("/v1/rerank", json={"query": "tea", "candidates": [{}] * 100_000}).json()
    assert {error["pointer"].split("/")[2] for error in flood["errors"]} == {"0"}


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_nesting_is_bounded(client: TestClient, opening: bytes) -> None:
    deep = client.post("/v1/normalize", content=b'{"content":' + opening * 100_000, headers=JSON)
    assert (deep.status_code, deep.json()["type"]) == (400, "urn:ragtune:problem:malformed-request")
    assert "recursion" in deep.json()["detail"]
