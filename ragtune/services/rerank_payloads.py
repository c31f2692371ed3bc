"""What goes over the wire of the rerank API that Cohere, Jina, vLLM and their clients speak."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict  # pydantic takes no other before Python 3.12

from ragtune.services.payloads import Many, Request

RERANK_PATHS = frozenset({"/v1/rerank", "/v2/rerank", "/rerank"})
"""Paths of the rerank API; its clients read errors from ``message`` or ``detail``."""

Finite = Annotated[float, Field(allow_inf_nan=False)]
Column = Many[Finite | None]
Vector = Annotated[Many[Finite], Field(min_length=1)]


class Budget(Request):
    """Limits of one query, each instead of the server's default; null lifts that one."""

    docs: Annotated[int, Field(ge=0)] | None = Field(default=None, description="Documents that may be reranked.")
    calls: Annotated[int, Field(ge=0)] | None = Field(default=None, description="Calls of the model.")
    tokens: Annotated[int, Field(ge=0)] | None = Field(default=None, description="Tokens that the model may read.")
    ms: Annotated[Finite, Field(ge=0)] | None = Field(
        default=None,
        description="Milliseconds; no call begins that is expected to pass them, as far as earlier calls tell.",
    )
    usd: Annotated[Finite, Field(ge=0)] | None = Field(default=None, description="Dollars.")
    flops: Annotated[Finite, Field(ge=0)] | None = Field(default=None, description="Floating-point operations.")
    search_units: Annotated[int, Field(ge=0)] | None = Field(default=None, description="Search units.")
    joules: Annotated[Finite, Field(ge=0)] | None = Field(default=None, description="Joules.")


class RerankQuery(Request):
    """A query and its candidates, best first unless there are scores. Unknown fields are ignored, with a warning."""

    query: str
    documents: Many[str | dict[str, Any]] = Field(
        description="Texts, or objects with a text in 'text' or in the rank_fields."
    )
    model: str | None = Field(default=None, description="Taken for the clients' sake: the server has one model.")
    top_n: Annotated[int, Field(ge=0)] | None = Field(default=None, description="Results; null or 0 for all.")
    return_documents: bool | None = Field(
        default=None, description="Whether results bring their document; by default at /rerank only."
    )
    rank_fields: tuple[str, ...] | None = Field(default=None, description="Fields of an object that are its text.")
    max_tokens_per_doc: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="Tokens after which a text is cut; by default where the model's own limit is."
    )
    budget: Budget | None = Field(default=None, description="RAGtune's: limits of this query.")
    min_score: Annotated[Finite, Field(ge=0, le=1)] | None = Field(
        default=None,
        description="RAGtune's: documents that the model gave less are left out, and those that it did not score.",
    )
    scores: Column | dict[str, Column] | None = Field(
        default=None,
        description="RAGtune's: the first stage's score of each document, or several first stages' by name.",
    )
    signals: dict[str, Column] | None = Field(
        default=None,
        description="RAGtune's: what else is known of each document for free, by name (recency, clicks): higher is "
        "better, null where it is not known.",
    )
    vectors: Many[Vector | None] | None = Field(
        default=None, description="RAGtune's: the embedding of each document; they tell which documents are alike."
    )
    query_vector: Vector | None = Field(
        default=None,
        description="RAGtune's: the query's embedding by the model of the vectors; its cosines become a signal.",
    )

    model_config = ConfigDict(frozen=True, extra="allow")


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
    """Search units, one for every 100 documents begun and at least one a call, as Cohere bills them."""

    search_units: int


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


class Usage(TypedDict):
    """What Jina's and vLLM's clients read about a request."""

    total_tokens: int
    prompt_tokens: int


Spending = dict[str, int | float]
"""A cost by unit; those without a price are left out."""


class Stop(TypedDict):
    """Why no more was scored."""

    reason: str
    source: str
    message: str


class HopTold(TypedDict):
    """What a model did: ``scored``, ``failed``, ``late``, or ``closed``, since it failed before and was not asked."""

    model: str
    outcome: str
    message: str


class Account(TypedDict):
    """RAGtune's own: what the ranking cost, and what reranking the other documents too was expected to cost on top.

    ``nothing_relevant`` is there if it is true: no scored document reaches the ``min_score``.
    ``possible`` is what an upstream may bill beyond ``spent``: for each call that was sent and had no whole answer.
    """

    spent: Spending
    saved: Spending
    stop: Stop
    reranked: list[int]
    failed: list[int]
    nothing_relevant: NotRequired[bool]
    answered_by: str
    hops: list[HopTold]
    possible: NotRequired[Spending]


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
