"""Voyage's rerank API. Source: voyageai-python, voyageai/object/reranking.py and api_resources/api_requestor.py."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from pydantic import ConfigDict, Field
from typing_extensions import TypedDict  # pydantic takes no other before Python 3.12

from ragtune.services.dialects.answer import Account, Answer, Usage
from ragtune.services.dialects.dialect import Dialect
from ragtune.services.payloads import Many
from ragtune.services.rerank_payloads import RerankQuery


class VoyageQuery(RerankQuery):
    """A request. Unknown fields are refused."""

    documents: Many[str]
    top_n: int | None = Field(default=None, ge=0, alias="top_k")
    truncation: bool = Field(default=True, description="Ignored: what is too long for the model is cut.")

    model_config = ConfigDict(frozen=True, extra="forbid")


class VoyageResult(TypedDict):
    """A result, whose document is a text."""

    index: int
    relevance_score: float
    estimated: bool
    document: NotRequired[str]


class VoyageRanked(TypedDict):
    """A ranking in Voyage's shape."""

    object: Literal["list"]
    data: list[VoyageResult]
    model: str
    usage: Usage
    ragtune: Account


def _write(answer: Answer) -> dict[str, Any]:
    return {
        "object": "list",
        "data": answer.rows(field="document" if answer.request.return_documents else None),
        "model": answer.model,
        "usage": answer.usage(),
        "ragtune": answer.account(),
    }


VOYAGE = Dialect(
    "rerank_voyage",
    "voyage",
    VoyageQuery,
    VoyageRanked,
    _write,
    shared=("/v1/rerank", "/rerank"),
    marks=frozenset({"top_k", "truncation"}),
    statuses={422: 400},
)
