"""A service in memory, and clients of its REST adapter."""

import os
from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient

from ragtune.canonical.service import RagService
from ragtune.canonical.store.memory import MemoryDatabase
from ragtune.core.interfaces import BaseReranker
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.context import RAGtuneContext
from ragtune.embedders.hashing import HashingEmbedder
from ragtune.services.application import create_application

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else it asks the network for prices at its import


class LengthReranker(BaseReranker):
    """The shorter the better."""

    def rerank(self, items: Any, context: RAGtuneContext, strategy: str) -> dict[str, float]:
        given: list[PoolItem] = list(items)
        return {item.doc_id: 1.0 / (1 + len(item.content)) for item in given}


@pytest.fixture
def service() -> RagService:
    """With a collection ``tea`` of three documents."""
    embedders = {"small": HashingEmbedder(dims=32), "large": HashingEmbedder(dims=64)}
    made = RagService(MemoryDatabase(), embedders, {"length": LengthReranker()})
    made.create_collection("tea")
    return made


Clients = Callable[..., TestClient]


@pytest.fixture
def make_client(service: RagService) -> Clients:
    """``make_client(**options of create_application)``: a client that calls the server by a name of loopback."""

    def make(**options: Any) -> TestClient:
        app = create_application(**{"service": service, **options})
        return TestClient(app, base_url="http://localhost", raise_server_exceptions=False)

    return make


@pytest.fixture
def client(make_client: Clients) -> TestClient:
    """Of a server with the default options, three documents in its collection ``tea``."""
    made = make_client()
    documents = [
        {"doc_id": "green", "content": "Green tea is steamed. It is drunk hot.", "tags": ["cup", "leaf"]},
        {"doc_id": "black", "content": "Black tea is oxidised.", "tags": ["leaf"], "metadata": {"origin": "Assam"}},
        {"doc_id": "mate", "content": "Mate is no tea.", "metadata": {"origin": "Parana"}},
    ]
    assert made.post("/v1/ingest", json={"collection": "tea", "documents": documents}).status_code == 200
    return made
