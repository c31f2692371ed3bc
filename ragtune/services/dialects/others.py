"""The rerank APIs of Text Embeddings Inference, Infinity, Voyage and vLLM, whose answers OpenAPI calls objects.

Sources: TEI, router/src/http/types.rs and router/src/lib.rs; infinity_emb/fastapi_schemas/pymodels.py and errors.py;
voyageai-python, voyageai/object/reranking.py and api_resources/api_requestor.py; vllm/entrypoints/pooling.
"""

from __future__ import annotations

import time
import uuid
from functools import partial
from typing import Annotated, Any

from pydantic import AliasChoices, BeforeValidator, ConfigDict, Field

from ragtune.services.dialects.answer import Answer
from ragtune.services.dialects.cohere import as_object
from ragtune.services.dialects.dialect import Dialect
from ragtune.services.errors import Problem
from ragtune.services.payloads import Many
from ragtune.services.rerank_payloads import RerankQuery


class InfinityQuery(RerankQuery):
    """A request of Infinity. Unknown fields are ignored."""

    documents: Many[str]
    raw_scores: bool = Field(default=False, description="Logits instead of scores in [0, 1].")

    model_config = ConfigDict(frozen=True, extra="ignore")

    @property
    def wants_logits(self) -> bool:
        return self.raw_scores


class TeiQuery(InfinityQuery):
    """A request of TEI. Unknown fields are ignored; ``top_n``, which TEI ignores, is heard."""

    documents: Many[str] = Field(alias="texts")
    return_documents: bool | None = Field(default=None, alias="return_text")


class VoyageQuery(RerankQuery):
    """A request of Voyage. Unknown fields are refused."""

    documents: Many[str]
    top_n: int | None = Field(default=None, ge=0, alias="top_k")
    truncation: bool = Field(default=True, description="Ignored: what is too long for the model is cut.")

    model_config = ConfigDict(frozen=True, extra="forbid")


class VllmQuery(RerankQuery):
    """A request of vLLM. Unknown fields are ignored."""

    truncate_prompt_tokens: int | None = Field(default=None, description="Ignored: what is too long is cut.")
    use_activation: bool | None = Field(default=None, description="False: logits instead of scores in [0, 1].")

    model_config = ConfigDict(frozen=True, extra="ignore")

    @property
    def wants_logits(self) -> bool:
        return self.use_activation is False


def _only(given: Any) -> Any:
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


def _in_tei(answer: Answer) -> list[dict[str, Any]]:
    return answer.rows("score", "text" if answer.request.return_documents else None)


def _listed(answer: Answer, results: str, **own: Any) -> dict[str, Any]:
    rows = answer.rows(field="document" if answer.request.return_documents else None)
    return {results: rows, **answer.common(), **own}


def _in_infinity(answer: Answer) -> dict[str, Any]:
    return _listed(answer, "results", object="rerank", id=f"infinity-{uuid.uuid4()}", created=int(time.time()))


def _in_vllm(answer: Answer) -> dict[str, Any]:
    def shown(document: str | dict[str, Any]) -> dict[str, Any]:
        return {"text": as_object(document).get("text"), "multi_modal": None}

    rows = answer.rows(field="document", write=shown)
    return {"id": f"rerank-{uuid.uuid4()}", "results": rows, **answer.common()}


def _as_scores(answer: Answer) -> dict[str, Any]:
    rows = sorted((row | {"object": "score"} for row in answer.rows("score")), key=lambda row: row["index"])
    about = {"id": f"score-{uuid.uuid4()}", "object": "list", "created": int(time.time())}
    return {**about, "data": rows, **answer.common()}


def _tei_error(problem: Problem) -> dict[str, Any]:
    kind = "Validation" if problem.status < 500 else "Overloaded" if problem.status in (503, 504) else "Backend"
    return {"error": problem.detail, "error_type": kind}


def _openai_error(problem: Problem) -> dict[str, Any]:
    """The ``error`` object of OpenAI's API, which vLLM and Infinity answer with."""
    return {"error": {"message": problem.detail, "type": problem.title, "param": None, "code": problem.status}}


_Object = dict[str, Any]
_AS_400 = {422: 400}

TEI = Dialect(
    "rerank_tei",
    "tei",
    TeiQuery,
    list[_Object],
    _in_tei,
    shared=("/rerank",),
    marks=frozenset({"texts"}),
    error=_tei_error,
)
VOYAGE = Dialect(
    "rerank_voyage",
    "voyage",
    VoyageQuery,
    _Object,
    partial(_listed, results="data", object="list"),
    shared=("/v1/rerank", "/rerank"),
    marks=frozenset({"top_k", "truncation"}),
    statuses=_AS_400,
)
INFINITY = Dialect(
    "rerank_infinity",
    "infinity",
    InfinityQuery,
    _Object,
    _in_infinity,
    shared=("/rerank", "/v1/rerank"),
    marks=frozenset({"raw_scores"}),
    error=_openai_error,
)
VLLM = Dialect(
    "rerank_vllm",
    "vllm",
    VllmQuery,
    _Object,
    _in_vllm,
    shared=("/rerank", "/v1/rerank", "/v2/rerank"),
    marks=frozenset({"truncate_prompt_tokens", "use_activation", "softmax", "activation", "mm_processor_kwargs"}),
    error=_openai_error,
    statuses=_AS_400,
)
SCORE = Dialect(
    "score",
    "vllm",
    VllmScoreQuery,
    _Object,
    _as_scores,
    paths=("/v1/score", "/score"),
    error=_openai_error,
    statuses=_AS_400,
)
