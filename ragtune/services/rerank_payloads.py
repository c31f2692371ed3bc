"""The one request that every dialect of the rerank API is read into."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from ragtune.services.payloads import Many, Payload

Finite = Annotated[float, Field(allow_inf_nan=False)]
Column = Many[Finite | None]
Vector = Annotated[Many[Finite], Field(min_length=1)]


class Budget(Payload):
    """Limits of one query, each instead of the server's default; null lifts that one."""

    docs: Annotated[int, Field(ge=0)] | None = Field(default=None, description="Documents that may be reranked.")
    calls: Annotated[int, Field(ge=0)] | None = Field(default=None, description="Calls of the model.")
    tokens: Annotated[int, Field(ge=0)] | None = Field(default=None, description="Tokens that the model may read.")
    ms: Annotated[Finite, Field(ge=0)] | None = Field(
        default=None,
        description="Milliseconds; no call begins that is expected to pass them, judged by earlier calls.",
    )
    usd: Annotated[Finite, Field(ge=0)] | None = Field(default=None, description="Dollars.")
    flops: Annotated[Finite, Field(ge=0)] | None = Field(default=None, description="Floating-point operations.")
    search_units: Annotated[int, Field(ge=0)] | None = Field(default=None, description="Search units.")
    joules: Annotated[Finite, Field(ge=0)] | None = Field(default=None, description="Joules.")


class RerankQuery(Payload):
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
        default=None, description="RAGtune's: the embedding of each document; they show which documents are alike."
    )
    query_vector: Vector | None = Field(
        default=None,
        description="RAGtune's: the query's embedding by the model of the vectors; its cosines become a signal.",
    )

    model_config = ConfigDict(frozen=True, extra="allow")

    @property
    def wants_logits(self) -> bool:
        """Whether scores are to be logits, not in [0, 1]."""
        return False
