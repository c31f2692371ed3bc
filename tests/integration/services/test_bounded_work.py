"""However a request is made, what it costs to refuse it is bounded, and the event loop does not pay for it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import cast

import pytest
from patience import HANG_S
from starlette.testclient import TestClient

from ragtune.canonical.service import RagService
from ragtune.services import limits
from ragtune.services.limits import Runner, ServerLimits, has_more_values

JSON = {"Content-Type": "application/json"}


def unknown(count: int) -> bytes:
    return json.dumps({"content": "x", **{f"k{i}": 0 for i in range(count)}}).encode()


@pytest.mark.parametrize(
    ("data", "values"),
    [
        (b"[1,2,3]", 3),
        (b'{"a": {"b": [1, "[,{,\\",["]}, "c": null}', 5),
        (b'["' + b",[{" * 50 + b'"]', 1),
        (b'"' + b",\\" * 50, 0),
        (b"[" * 50, 50),
        (b"", 0),
    ],
)
def test_values_are_counted_without_what_strings_hold(data: bytes, values: int) -> None:
    assert not has_more_values(data, values)
    assert values == 0 or has_more_values(data, values - 1)


def test_a_flood_of_strings_that_is_no_json_is_given_up_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read, pattern = [], limits._TOKEN

    class Counting:
        def finditer(self, data: bytes) -> Iterator[re.Match[bytes]]:
            for token in pattern.finditer(data):
                read.append(token.start())
                yield token

    monkeypatch.setattr(limits, "_TOKEN", Counting())
    assert not has_more_values(b'{"x":"' + b"," * 200_001 + b'",' + b'""' * 100_000, 200_000)
    assert len(read) < 20


@pytest.mark.parametrize("path", ["/v1/normalize", "/mcp"])
def test_more_values_than_allowed_are_refused_before_they_are_parsed(
    make_client: Callable[..., TestClient], path: str
) -> None:
    client = make_client(limits=ServerLimits(values=1000))
    refused = client.post(path, content=unknown(1000), headers=JSON)
    assert (refused.status_code, refused.json()["type"]) == (413, "urn:ragtune:problem:too-large")
    assert "1000 values" in refused.json()["detail"]
    text = {"content": "a, [b], {c}" * 1000}
    assert make_client(limits=ServerLimits(values=1000)).post("/v1/normalize", json=text).status_code == 200


def test_whoever_watches_over_the_server_does_not_wait_for_a_flood_of_values_to_be_counted() -> None:
    counted = threading.Event()

    async def check(runner: Runner) -> None:
        threads = 2 * (os.cpu_count() or 1) + 40  # more than the event loop's own pool has
        flood = [asyncio.create_task(asyncio.to_thread(counted.wait, HANG_S)) for _ in range(threads)]
        await asyncio.sleep(0)
        try:
            await runner.check()
        finally:
            counted.set()
            await asyncio.gather(*flood)

    asked: list[bool] = []
    runner = Runner(cast(RagService, SimpleNamespace(check=lambda: asked.append(counted.is_set()))), ServerLimits())
    asyncio.run(check(runner))
    runner.close()
    assert asked == [False]


def test_errors_are_told_by_a_thread_of_the_work_and_only_so_many_are_looked_at(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []

    def invalid(error: Exception) -> Exception:
        threads.append(threading.current_thread().name)
        return original(error)

    original = limits.invalid
    monkeypatch.setattr(limits, "invalid", invalid)
    few = client.post("/v1/normalize", content=unknown(30), headers=JSON).json()
    assert (few["detail"], len(few["errors"])) == ("/k0: Extra inputs are not permitted, and 29 more", 20)
    many = client.post("/v1/normalize", content=unknown(20_000), headers=JSON).json()
    assert many["detail"].startswith("20000 ")
    assert "errors" not in many
    assert len(threads) == 2
    assert all(name.startswith("ragtune") for name in threads)


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_nesting_is_bounded(client: TestClient, opening: bytes) -> None:
    deep = client.post("/v1/normalize", content=b'{"content":' + opening * 100_000, headers=JSON)
    assert (deep.status_code, deep.json()["type"]) == (400, "urn:ragtune:problem:malformed-request")
    assert "recursion" in deep.json()["detail"]
