"""A real server of the rerank API in this process, and a client of it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import uvicorn
from patience import HANG_S

from ragtune.canonical.service import RagService
from ragtune.canonical.store.memory import MemoryDatabase
from ragtune.embedders.hashing import HashingEmbedder
from ragtune.services.application import create_application
from ragtune.services.limits import ServerLimits
from ragtune.services.rerank import RerankServer
from ragtune.services.security import Security

KEY = "a-key-of-the-test-suite"
HTTP = httpx2.Client(timeout=HANG_S, limits=httpx2.Limits(max_connections=100))


@contextmanager
def serving(
    ranker: RerankServer | None, limits: ServerLimits | None = None, service: RagService | None = None
) -> Iterator[str]:
    """The address of a real server."""
    service = service or RagService(MemoryDatabase(), {"hashing": HashingEmbedder(dims=16)})
    app = create_application(service, Security(api_key=KEY), limits or ServerLimits(), ranker=ranker, with_mcp=False)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started and thread.is_alive():
            threading.Event().wait(0.01)
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
