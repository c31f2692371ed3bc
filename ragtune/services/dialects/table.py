"""The dialects of the rerank API, and which of them a request is in.

Sources: cohere-python, src/cohere/client.py and src/cohere/v2/client.py; LocalAI (Jina's, which llama.cpp speaks as
well), core/schema/jina.go; TEI, router/src/http/types.rs and lib.rs; infinity_emb/fastapi_schemas/pymodels.py
and errors.py; voyageai-python, voyageai/object/reranking.py and api_resources/api_requestor.py;
vllm/entrypoints/pooling.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Annotated, Any

from pydantic import AliasChoices, BeforeValidator, ConfigDict, Field
from pydantic_core import from_json

from ragtune.services.dialects.dialect import Answer, Dialect
from ragtune.services.errors import Problem, problem_of
from ragtune.services.payloads import Many, RerankQuery


class CohereQuery(RerankQuery):
    """A request of version 1. Unknown fields are ignored, with a warning: Jina's and vLLM's clients use its path."""

    max_chunks_per_doc: int | None = Field(default=None, description="Ignored: a document is read as one text.")


class CohereV2Query(RerankQuery):
    """A request of version 2. Unknown fields are refused."""

    priority: int | None = Field(default=None, description="Ignored: all requests are alike.")

    model_config = ConfigDict(frozen=True, extra="forbid")


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


def _in_cohere(answer: Answer, version: str, shows: bool = False) -> dict[str, Any]:
    """An answer in Cohere's shape, of version 1 in Jina's at once; ``shows`` documents unless the request says."""
    shown = answer.request.return_documents
    warnings = answer.warnings()
    meta = {
        "api_version": {"version": version, "is_experimental": False},
        "billed_units": _billed(answer),
        "tokens": {"input_tokens": answer.ranking.cost.tokens, "output_tokens": 0},
    }
    return {
        "id": str(uuid.uuid4()),
        "results": answer.rows(field="document" if (shows if shown is None else shown) else None, write=_as_object),
        "meta": meta | ({"warnings": warnings} if warnings else {}),
        **(answer.common() if version == "1" else {"ragtune": answer.account()}),
    }


def _as_object(document: str | dict[str, Any]) -> dict[str, Any]:
    return {"text": document} if isinstance(document, str) else document


def _billed(answer: Answer) -> dict[str, int]:
    cost = answer.ranking.cost
    tokens = {"input_tokens": cost.tokens} if cost.usd and not cost.search_units else {}
    return {"search_units": cost.search_units} | tokens


def _in_tei(answer: Answer) -> list[dict[str, Any]]:
    return answer.rows("score", "text" if answer.request.return_documents else None)


def _listed(answer: Answer, results: str, **own: Any) -> dict[str, Any]:
    rows = answer.rows(field="document" if answer.request.return_documents else None)
    return {results: rows, **answer.common(), **own}


def _in_infinity(answer: Answer) -> dict[str, Any]:
    return _listed(answer, "results", object="rerank", id=f"infinity-{uuid.uuid4()}", created=int(time.time()))


def _in_vllm(answer: Answer) -> dict[str, Any]:
    def shown(document: str | dict[str, Any]) -> dict[str, Any]:
        return {"text": _as_object(document).get("text"), "multi_modal": None}

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


V1 = Dialect("rerank_v1", "cohere", CohereQuery, partial(_in_cohere, version="1"), ("/v1/rerank",))
V2 = Dialect("rerank_v2", "cohere", CohereV2Query, partial(_in_cohere, version="2"), ("/v2/rerank",))
JINA = Dialect(
    "rerank_jina",
    "jina",
    CohereQuery,
    partial(_in_cohere, version="1", shows=True),
    paths=("/rerank", "/v1/reranking", "/reranking"),
    shared=("/v1/rerank",),
)
TEI = Dialect(
    "rerank_tei",
    "tei",
    TeiQuery,
    _in_tei,
    shared=("/rerank",),
    marks=frozenset({"texts"}),
    error=_tei_error,
    response=list[dict[str, Any]],
)
VOYAGE = Dialect(
    "rerank_voyage",
    "voyage",
    VoyageQuery,
    partial(_listed, results="data", object="list"),
    shared=("/v1/rerank", "/rerank"),
    marks=frozenset({"top_k", "truncation"}),
    invalid=400,
)
INFINITY = Dialect(
    "rerank_infinity",
    "infinity",
    InfinityQuery,
    _in_infinity,
    shared=("/rerank", "/v1/rerank"),
    marks=frozenset({"raw_scores"}),
    error=_openai_error,
)
VLLM = Dialect(
    "rerank_vllm",
    "vllm",
    VllmQuery,
    _in_vllm,
    shared=("/rerank", "/v1/rerank", "/v2/rerank"),
    marks=frozenset({"truncate_prompt_tokens", "use_activation", "softmax", "activation", "mm_processor_kwargs"}),
    error=_openai_error,
    invalid=400,
)
SCORE = Dialect(
    "score",
    "vllm",
    VllmScoreQuery,
    _as_scores,
    paths=("/v1/score", "/score"),
    error=_openai_error,
    invalid=400,
)
DIALECTS = (V1, V2, JINA, TEI, VOYAGE, INFINITY, VLLM, SCORE)

BY_PATH: dict[str, list[Dialect]] = {path: [dialect] for dialect in DIALECTS for path in dialect.paths}
"""The dialects at each path of the rerank API; requests that do not tell are in the first."""

for _dialect in DIALECTS:
    _paths = [f"/{_dialect.server}{path}" for path in _dialect.paths + _dialect.shared]
    for _path in (*(_dialect.shared if _dialect.marks else ()), *_paths):
        BY_PATH.setdefault(_path, []).append(_dialect)


def fields_of(data: bytes) -> tuple[Mapping[str, Any], bool]:
    """The fields in the body of a request, none where it is no object, and whether it is JSON by RFC 8259."""
    for is_json in (True, False):
        with suppress(ValueError):
            given = from_json(data, allow_inf_nan=not is_json)
            return given if isinstance(given, dict) else {}, is_json
    return {}, False


def dialect_of(path: str, fields: Mapping[str, Any]) -> Dialect:
    """The dialect of a request at one of the paths."""
    first, *others = BY_PATH[path]
    return next((dialect for dialect in others if not fields.keys().isdisjoint(dialect.marks)), first)


def problem_at(path: str, error: Exception, dialect: Dialect | None = None) -> Problem:
    """What a client of that path reads of an error; in the first dialect there unless its own is known."""
    found = problem_of(error)
    dialect = dialect or next(iter(BY_PATH.get(path, ())), None)
    return found if dialect is None else dialect.problem(found)
