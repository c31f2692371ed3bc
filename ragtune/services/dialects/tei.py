"""The rerank API of Text Embeddings Inference. Source: its router/src/http/types.rs and router/src/lib.rs."""

from __future__ import annotations

from typing import Any, NotRequired

from pydantic import ConfigDict, Field
from typing_extensions import TypedDict  # pydantic takes no other before Python 3.12

from ragtune.services.dialects.answer import Answer
from ragtune.services.dialects.dialect import Dialect
from ragtune.services.errors import Problem
from ragtune.services.payloads import Many
from ragtune.services.rerank_payloads import RerankQuery


class TeiQuery(RerankQuery):
    """A request. Unknown fields are ignored; ``top_n``, which TEI ignores, is heard."""

    documents: Many[str] = Field(alias="texts")
    return_documents: bool | None = Field(default=None, alias="return_text")
    raw_scores: bool = Field(default=False, description="Logits instead of scores in [0, 1].")

    model_config = ConfigDict(frozen=True, extra="ignore")

    @property
    def wants_logits(self) -> bool:
        return self.raw_scores


class Rank(TypedDict):
    """A result, as of the other dialects."""

    index: int
    score: float
    estimated: bool
    text: NotRequired[str]


def _write(answer: Answer) -> list[dict[str, Any]]:
    return answer.rows("score", "text" if answer.request.return_documents else None)


def _error(problem: Problem) -> dict[str, Any]:
    kind = "Validation" if problem.status < 500 else "Overloaded" if problem.status in (503, 504) else "Backend"
    return {"error": problem.detail, "error_type": kind}


TEI = Dialect(
    "rerank_tei",
    "tei",
    TeiQuery,
    list[Rank],
    _write,
    shared=("/rerank",),
    marks=frozenset({"texts"}),
    error=_error,
)
