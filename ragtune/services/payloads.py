"""What goes over the wire: types of the library, put into objects, and the one request of all rerank dialects."""

from __future__ import annotations

import math
from typing import Annotated, Any, NotRequired, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model, with_config
from typing_extensions import TypedDict  # pydantic takes no other before Python 3.12

from ragtune.canonical.normalization import check_metadata
from ragtune.canonical.types import Candidate
from ragtune.core.units import UNITS

T = TypeVar("T")

Many = Annotated[tuple[T, ...], Field(fail_fast=True)]
"""A list that is checked up to its first error, as a million errors would take gigabytes."""

_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$"


def _check_candidate(candidate: Candidate) -> Candidate:
    """JSON can write numbers that it cannot read back, and blocks that pass candidates on would."""
    check_metadata(candidate.metadata)
    if not all(map(math.isfinite, candidate.sources.values())):
        raise ValueError("sources: allowed are finite numbers")
    return candidate


GivenCandidate = Annotated[Candidate, AfterValidator(_check_candidate)]
CandidateList = Many[GivenCandidate]
CollectionName = Annotated[str, Field(pattern=_NAME, description="Name of the collection.")]
Model = Annotated[str | None, Field(description="Name of a model that the server was started with; null: its default.")]


class Payload(BaseModel):
    """Base of all requests: unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


Finite = Annotated[float, Field(allow_inf_nan=False)]
Column = Many[Finite | None]
Vector = Annotated[Many[Finite], Field(min_length=1)]


class FuseParams(Payload):
    """Arguments of a fusion: ``k`` of ``rrf``, ``weights`` of ``rrf`` and ``scores``; ``concat`` takes none."""

    k: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    weights: dict[str, Annotated[float, Field(ge=0, le=1e6)]] | None = None


@with_config(extra="forbid")
class PackagedExcerpt(TypedDict):
    """An excerpt of a result."""

    start: int
    end: int
    text: str
    score: Finite
    tokens: int


class Excerpt(PackagedExcerpt):
    """A span of a candidate's content."""

    doc_id: str
    chunk_index: int


class Result(TypedDict):
    """A result; ``content`` and ``excerpts`` if they were asked for."""

    rank: int
    doc_id: str
    chunk_index: int
    score: float
    sources: dict[str, float]
    tags: list[str]
    metadata: dict[str, Any]
    content: NotRequired[str]
    excerpts: NotRequired[list[PackagedExcerpt]]


_LIMITS: dict[str, Any] = {
    unit.short: (
        Annotated[int if unit.is_count else Finite, Field(ge=0)] | None,
        Field(default=None, description=f"{unit.noun.capitalize()} that the query may take."),
    )
    for unit in UNITS
}
Budget = create_model(
    "Budget",
    __base__=Payload,
    __doc__="Limits of one query, each instead of the server's default; null lifts that one.",
    **_LIMITS,
)


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
    budget: Budget | None = Field(default=None, description="RAGtune's: limits.")  # type: ignore[valid-type]
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
