"""A real server of REST, MCP and the rerank API in this process, and a client of it."""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import httpx2
import uvicorn
from patience import HANG_S, wait_until

from ragtune.canonical.service import RagService
from ragtune.canonical.store.memory import MemoryDatabase
from ragtune.embedders.hashing import HashingEmbedder
from ragtune.services.application import create_application
from ragtune.services.limits import ServerLimits
from ragtune.services.rerank import RerankServer
from ragtune.services.security import Security

KEY = "a-key-of-the-test-suite"
TEXTS = ["no tea", "tea", "tea tea tea", "coffee", "tea tea"]
HTTP = httpx2.Client(timeout=HANG_S, limits=httpx2.Limits(max_connections=100))


@contextmanager
def serving(
    ranker: RerankServer | None,
    limits: ServerLimits | None = None,
    service: RagService | None = None,
    key: str | None = KEY,
) -> Iterator[str]:
    """The address of a real server."""
    service = service or RagService(MemoryDatabase(), {"hashing": HashingEmbedder(dims=16)})
    app = create_application(service, Security(api_key=key), limits, ranker)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started or not thread.is_alive())
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(HANG_S)
        if ranker is not None:
            ranker.close()


def ask(url: str, path: str, body: Any, key: str = KEY) -> httpx2.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    return HTTP.post(url + path, content=content, headers=headers)


def count_tea(query: str, texts: Sequence[str]) -> list[float]:
    return [text.split().count("tea") / 10 for text in texts]
