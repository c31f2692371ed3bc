"""What clients and proxies ask a rerank server before they send it a query."""

from __future__ import annotations

import time
from typing import Any

from ragtune import __version__
from ragtune.services.dialects.table import DIALECTS
from ragtune.services.errors import AdapterError
from ragtune.services.limits import ServerLimits
from ragtune.services.rerank import RerankServer

HEALTH = ("/health", "/tei/health", "/vllm/health", "/infinity/health")
MODELS = ("/v1/models", "/models", "/vllm/v1/models", "/infinity/models")
INFO = ("/info", "/tei/info")

_STARTED = int(time.time())
_LABELS: dict[str, Any] = {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}


def about(ranker: RerankServer | None) -> dict[str, Any]:
    """What this server is; no secret, so it needs no key."""
    paths = {dialect.name: dialect.operation.path for dialect in DIALECTS}
    return {
        "name": "RAGtune",
        "version": __version__,
        "about": "A rerank API with a budget, and the blocks of retrieval-augmented generation.",
        "rerank": {} if ranker is None else paths,
        "mcp": "/mcp",
        "docs": "/docs",
    }


def models(ranker: RerankServer | None) -> dict[str, Any]:
    """The list of models of OpenAI's API, as vLLM and Infinity serve it."""
    names = [] if ranker is None else [ranker.model]
    data = [{"id": name, "object": "model", "created": _STARTED, "owned_by": "ragtune"} for name in names]
    return {"object": "list", "data": data}


def info(ranker: RerankServer | None, limits: ServerLimits) -> dict[str, Any]:
    """The description that Text Embeddings Inference has at ``/info``; its clients read the size of a batch."""
    if ranker is None:
        raise AdapterError("no-model", "Start it with --model to rerank documents here.")
    return {
        "model_id": ranker.model,
        "model_sha": None,
        "model_dtype": "unknown",
        "served_model_name": ranker.model,
        "model_type": {"reranker": _LABELS},
        "max_concurrent_requests": limits.in_flight,
        "max_input_length": ranker.max_length,
        "max_batch_tokens": ranker.max_length * ranker.max_documents,
        "max_batch_requests": None,
        "max_client_batch_size": ranker.max_documents,
        "auto_truncate": True,
        "tokenization_workers": 1,
        "version": __version__,
    }
