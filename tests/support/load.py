"""Clients of the rerank API that cost next to nothing, so that a load test measures the server and not itself."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Answer:
    """What one request got: its status, the milliseconds that it took, and its body."""

    status: int
    ms: float
    text: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.text)


async def answers(url: str, clients: list[Iterator[bytes]], seconds: float) -> list[Answer]:
    """What clients get who send one request after the other, each over a connection of its own."""
    until = time.monotonic() + seconds
    return [answer for seen in await asyncio.gather(*(_ask(url, each, until) for each in clients)) for answer in seen]


async def abandon(url: str, requests: Iterator[bytes], seconds: float, patience_s: float = 0.2) -> None:
    """A client who hangs up before the answer, again and again."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        _, writer = await _connect(url)
        writer.write(_sent(next(requests)))
        await writer.drain()
        await asyncio.sleep(patience_s)
        writer.close()


async def _ask(url: str, requests: Iterator[bytes], until: float) -> list[Answer]:
    seen: list[Answer] = []
    reader, writer = await _connect(url)
    try:
        for request in requests:
            if time.monotonic() >= until:
                break
            begun = time.monotonic()
            writer.write(_sent(request))
            status, text, is_kept = await _answer(reader)
            seen.append(Answer(status, 1000.0 * (time.monotonic() - begun), text))
            if not is_kept:
                writer.close()
                reader, writer = await _connect(url)
    finally:
        writer.close()
    return seen


def _sent(body: bytes) -> bytes:
    head = "POST /v2/rerank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def _connect(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    address = urlsplit(url)
    return await asyncio.open_connection(address.hostname, address.port)


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes, bool]:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    fields = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:] if line)
    text = await reader.readexactly(int(fields[b"content-length"]))
    return int(head.split(b" ", 2)[1]), text, fields.get(b"connection") != b"close"
