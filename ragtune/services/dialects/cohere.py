"""Cohere's rerank API, versions 1 and 2, and Jina's, which llama.cpp and LocalAI speak as well.

Sources: cohere-python, src/cohere/client.py and src/cohere/v2/client.py; LocalAI, core/schema/jina.go.
"""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any, Literal, NotRequired

from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict  # pydantic takes no other before Python 3.12

from ragtune.services.dialects.answer import Account, Answer, Usage
from ragtune.services.dialects.dialect import Dialect
from ragtune.services.rerank_payloads import RerankQuery


class CohereQuery(RerankQuery):
    """A request of version 1. Unknown fields are ignored, with a warning: Jina's and vLLM's clients use its path."""

    max_chunks_per_doc: int | None = Field(default=None, description="Ignored: a document is read as one text.")


class CohereV2Query(RerankQuery):
    """A request of version 2. Unknown fields are refused."""

    priority: int | None = Field(default=None, description="Ignored: all requests are alike.")

    model_config = ConfigDict(frozen=True, extra="forbid")


@with_config(ConfigDict(extra="allow"))
class ResultDocument(TypedDict):
    """A document as it was given; a text becomes an object. Other fields of an object are returned as well."""

    text: NotRequired[str]


class RerankResult(TypedDict):
    """A result: which of the documents, and its relevance in [0, 1].

    ``relevance_score`` is the model's score of a document that the model scored, with a calibration the probability of
    relevance. Otherwise ``estimated`` is true, and the score is RAGtune's estimate.
    """

    index: int
    relevance_score: float
    estimated: bool
    document: NotRequired[ResultDocument]


class ApiVersion(TypedDict):
    """Version of the API, in Cohere's count."""

    version: Literal["1", "2"]
    is_experimental: bool


class BilledUnits(TypedDict):
    """What this request was billed: a rerank server's search units, or tokens where these have a price."""

    search_units: int
    input_tokens: NotRequired[int]


class Tokens(TypedDict):
    """Tokens that the model has read."""

    input_tokens: int
    output_tokens: int


class Meta(TypedDict):
    """What Cohere's clients read about a request."""

    api_version: ApiVersion
    billed_units: BilledUnits
    tokens: Tokens
    warnings: NotRequired[list[str]]


class Ranked(TypedDict):
    """A ranking in Cohere's shape."""

    id: str
    results: list[RerankResult]
    meta: Meta
    ragtune: Account


class RankedWithUsage(Ranked):
    """A ranking in Cohere's shape and in Jina's at once."""

    model: str
    usage: Usage


def write(answer: Answer, version: str, shows: bool = False) -> dict[str, Any]:
    """An answer in Cohere's shape and in Jina's at once; ``shows`` documents unless the request says."""
    shown = answer.request.return_documents
    warnings = answer.warnings()
    meta = {
        "api_version": {"version": version, "is_experimental": False},
        "billed_units": _billed(answer),
        "tokens": {"input_tokens": answer.ranking.cost.tokens, "output_tokens": 0},
    }
    return {
        "id": str(uuid.uuid4()),
        "results": answer.rows(field="document" if (shows if shown is None else shown) else None, write=as_object),
        "meta": meta | ({"warnings": warnings} if warnings else {}),
        **answer.common(),
    }


def as_object(document: str | dict[str, Any]) -> dict[str, Any]:
    """A document as an object: a text becomes its ``text``."""
    return {"text": document} if isinstance(document, str) else document


def _billed(answer: Answer) -> dict[str, int]:
    cost = answer.ranking.cost
    tokens = {"input_tokens": cost.tokens} if cost.usd and not cost.search_units else {}
    return {"search_units": cost.search_units} | tokens


V1 = Dialect("rerank_v1", "cohere", CohereQuery, RankedWithUsage, partial(write, version="1"), ("/v1/rerank",))
V2 = Dialect("rerank_v2", "cohere", CohereV2Query, Ranked, partial(write, version="2"), ("/v2/rerank",))
JINA = Dialect(
    "rerank_jina",
    "jina",
    CohereQuery,
    RankedWithUsage,
    partial(write, version="1", shows=True),
    paths=("/rerank", "/v1/reranking", "/reranking"),
    shared=("/v1/rerank",),
)
