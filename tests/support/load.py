"""Clients of the rerank API that cost next to nothing, so that a load test measures the server and not itself."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Answer:
    """What one request got: its status, the milliseconds that it took, and its body."""

    status: int
    ms: float
    text: bytes
    at: float = 0.0

    @property
    def body(self) -> Any:
        return json.loads(self.text)


async def clients(url: str, bodies: list[Iterator[bytes]], seconds: float) -> list[Answer]:
    """The answers that clients got who ask one request after the other, each over a connection of its own."""
    until = time.monotonic() + seconds
    return [answer for seen in await asyncio.gather(*(_client(url, one, until) for one in bodies)) for answer in seen]


async def _client(url: str, bodies: Iterator[bytes], until: float) -> list[Answer]:
    seen: list[Answer] = []
    reader, writer = await _connect(url)
    try:
        for body in bodies:
            if time.monotonic() >= until:
                break
            begun = time.monotonic()
            writer.write(request(body))
            status, text, is_kept = await _answer(reader)
            seen.append(Answer(status, 1000.0 * (time.monotonic() - begun), text, begun))
            if not is_kept:
                writer.close()
                reader, writer = await _connect(url)
    finally:
        writer.close()
    return seen


async def abandon(url: str, bodies: Callable[[], bytes], seconds: float, patience_s: float = 0.2) -> int:
    """The requests of a client who hangs up before the answers."""
    until, sent = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        _, writer = await _connect(url)
        writer.write(request(bodies()))
        await writer.drain()
        await asyncio.sleep(patience_s)
        writer.close()
        sent += 1
    return sent


def request(body: bytes, path: str = "/v2/rerank") -> bytes:
    """A request as it is sent."""
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


async def _connect(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    address = urlsplit(url)
    return await asyncio.open_connection(address.hostname, address.port)


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes, bool]:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    lines = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
    text = await reader.readexactly(int(lines[b"content-length"]))
    return int(head.split(b" ", 2)[1]), text, lines.get(b"connection") != b"close"
