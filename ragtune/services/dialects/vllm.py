"""vLLM's rerank and score APIs. Source: its vllm/entrypoints/pooling, the protocol of scores."""

from __future__ import annotations

import time
import uuid
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BeforeValidator, ConfigDict, Field
from typing_extensions import TypedDict  # pydantic takes no other before Python 3.12

from ragtune.services.dialects.answer import Account, Answer, Usage
from ragtune.services.dialects.cohere import as_object
from ragtune.services.dialects.dialect import Dialect, openai_error
from ragtune.services.payloads import Many
from ragtune.services.rerank_payloads import RerankQuery


class VllmQuery(RerankQuery):
    """A request. Unknown fields are ignored."""

    truncate_prompt_tokens: int | None = Field(default=None, description="Ignored: what is too long is cut.")
    use_activation: bool | None = Field(default=None, description="False: logits instead of scores in [0, 1].")

    model_config = ConfigDict(frozen=True, extra="ignore")

    @property
    def wants_logits(self) -> bool:
        return self.use_activation is False


def _only(given: Any) -> Any:
    """The text of a list of one."""
    return given[0] if isinstance(given, list) and len(given) == 1 else given


def _several(given: Any) -> Any:
    return (given,) if isinstance(given, str) else tuple(given) if isinstance(given, list) else given


class VllmScoreQuery(VllmQuery):
    """A text and those that it is compared with; several of the first kind take several requests."""

    query: Annotated[str, BeforeValidator(_only)] = Field(
        validation_alias=AliasChoices("text_1", "queries", "data_1"), description="One text, or a list of one."
    )
    documents: Annotated[Many[str | dict[str, Any]], BeforeValidator(_several)] = Field(
        validation_alias=AliasChoices("text_2", "documents", "items", "data_2")
    )


class VllmDocument(TypedDict):
    """The text of a document."""

    text: str | None
    multi_modal: None


class VllmResult(TypedDict):
    """A result with its document."""

    index: int
    document: VllmDocument
    relevance_score: float
    estimated: bool


class VllmRanked(TypedDict):
    """A ranking in vLLM's shape."""

    id: str
    model: str
    usage: Usage
    results: list[VllmResult]
    ragtune: Account


class VllmScore(TypedDict):
    """The score of a text."""

    index: int
    object: Literal["score"]
    score: float
    estimated: bool


class VllmScores(TypedDict):
    """Scores in the order of the texts."""

    id: str
    object: Literal["list"]
    created: int
    model: str
    data: list[VllmScore]
    usage: Usage
    ragtune: Account


def _write(answer: Answer) -> dict[str, Any]:
    def shown(document: str | dict[str, Any]) -> dict[str, Any]:
        return {"text": as_object(document).get("text"), "multi_modal": None}

    return {
        "id": f"rerank-{uuid.uuid4()}",
        "model": answer.model,
        "usage": answer.usage(),
        "results": answer.rows(field="document", write=shown),
        "ragtune": answer.account(),
    }


def _write_scores(answer: Answer) -> dict[str, Any]:
    return {
        "id": f"score-{uuid.uuid4()}",
        "object": "list",
        "created": int(time.time()),
        "model": answer.model,
        "data": sorted((row | {"object": "score"} for row in answer.rows("score")), key=lambda row: row["index"]),
        "usage": answer.usage(),
        "ragtune": answer.account(),
    }


VLLM = Dialect(
    "rerank_vllm",
    "vllm",
    VllmQuery,
    VllmRanked,
    _write,
    shared=("/rerank", "/v1/rerank", "/v2/rerank"),
    marks=frozenset({"truncate_prompt_tokens", "use_activation", "softmax", "activation", "mm_processor_kwargs"}),
    error=openai_error,
    statuses={422: 400},
)

SCORE = Dialect(
    "score",
    "vllm",
    VllmScoreQuery,
    VllmScores,
    _write_scores,
    paths=("/v1/score", "/score"),
    error=openai_error,
    statuses={422: 400},
)
