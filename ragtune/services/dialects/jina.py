"""Jina's rerank API, which llama.cpp and LocalAI speak as well. Source: LocalAI, core/schema/jina.go."""

from __future__ import annotations

from functools import partial

from ragtune.services.dialects.cohere import CohereQuery, RankedWithUsage, write
from ragtune.services.dialects.dialect import Dialect

JINA = Dialect(
    "rerank_jina",
    "jina",
    CohereQuery,
    RankedWithUsage,
    partial(write, version="1", shows=True),
    paths=("/rerank", "/v1/reranking", "/reranking"),
    shared=("/v1/rerank",),
)
