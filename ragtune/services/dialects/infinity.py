"""Infinity's rerank API. Source: its infinity_emb/fastapi_schemas/pymodels.py and errors.py."""

from __future__ import annotations

import time
import uuid
from typing import Any, Literal, NotRequired

from pydantic import ConfigDict, Field
from typing_extensions import TypedDict  # pydantic takes no other before Python 3.12

from ragtune.services.dialects.answer import Account, Answer, Usage
from ragtune.services.dialects.dialect import Dialect, openai_error
from ragtune.services.payloads import Many
from ragtune.services.rerank_payloads import RerankQuery


class InfinityQuery(RerankQuery):
    """A request. Unknown fields are ignored."""

    documents: Many[str]
    raw_scores: bool = Field(default=False, description="Logits instead of scores in [0, 1].")

    model_config = ConfigDict(frozen=True, extra="ignore")

    @property
    def wants_logits(self) -> bool:
        return self.raw_scores


class InfinityResult(TypedDict):
    """A result, whose document is a text."""

    relevance_score: float
    index: int
    estimated: bool
    document: NotRequired[str]


class InfinityRanked(TypedDict):
    """A ranking in Infinity's shape."""

    object: Literal["rerank"]
    results: list[InfinityResult]
    model: str
    usage: Usage
    id: str
    created: int
    ragtune: Account


def _write(answer: Answer) -> dict[str, Any]:
    return {
        "object": "rerank",
        "results": answer.rows(field="document" if answer.request.return_documents else None),
        "model": answer.model,
        "usage": answer.usage(),
        "id": f"infinity-{uuid.uuid4()}",
        "created": int(time.time()),
        "ragtune": answer.account(),
    }


INFINITY = Dialect(
    "rerank_infinity",
    "infinity",
    InfinityQuery,
    InfinityRanked,
    _write,
    shared=("/rerank", "/v1/rerank"),
    marks=frozenset({"raw_scores"}),
    error=openai_error,
)
