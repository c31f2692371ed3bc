"""The rerank dialects as servers speak them: what they accept, strictly, and what they answer, best first."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Shape:
    """A dialect: fields that a request must and may have, by type, and how rows become an answer."""

    paths: Sequence[str]
    wanted: Mapping[str, type]
    known: Mapping[str, type]
    answer: Callable[[Rows, int, int], Any]
    is_raw: Callable[[Mapping[str, Any]], bool] = field(default=lambda body: False)
    texts: str = "documents"
    limit: str = "top_n"
    score: str = "relevance_score"
    most: int = 1000

    def objection(self, body: Mapping[str, Any]) -> str | None:
        for name, kind in self.wanted.items():
            if not isinstance(body.get(name), kind):
                return f"{name} must be a {kind.__name__}"
        for name in set(body) - set(self.wanted):
            if not isinstance(body[name], self.known.get(name, ())):
                return f"unknown field {name} or bad value"
        texts = body[self.texts]
        if not all(isinstance(text, str) and text.strip() for text in texts):
            return f"{self.texts} must be texts that are not empty"
        return None if 1 <= len(texts) <= self.most else f"allowed are 1 to {self.most} {self.texts}"

    def reply(self, body: Mapping[str, Any], logits: Sequence[float], tokens: int, units: int) -> Any:
        is_raw = self.is_raw(body)
        scores = [logit if is_raw else 1.0 / (1.0 + math.exp(-logit)) for logit in logits]
        order = sorted(range(len(scores)), key=lambda i: -scores[i])
        rows = [{"index": i, self.score: scores[i]} for i in order[: body.get(self.limit) or None]]
        return self.answer(rows, tokens, units)


def _cohere(rows: Rows, tokens: int, units: int) -> Any:
    return {
        "id": "r",
        "results": rows,
        "meta": {"api_version": {"version": "2"}, "billed_units": {"search_units": units}},
    }


def _jina(rows: Rows, tokens: int, units: int) -> Any:
    usage = {"total_tokens": tokens, "prompt_tokens": tokens} if tokens else None
    return {"model": "test", "usage": usage, "results": rows}


def _vllm(rows: Rows, tokens: int, units: int) -> Any:
    usage = {"total_tokens": tokens}
    return {"id": "r", "model": "m", "usage": usage, "results": [row | {"document": {"text": "?"}} for row in rows]}


def _voyage(rows: Rows, tokens: int, units: int) -> Any:
    return {"object": "list", "data": rows, "model": "m", "usage": {"total_tokens": tokens}}


_ASKED = {"query": str, "documents": list}
_JINA = {"model": str, "top_n": int, "return_documents": bool}

SHAPES: dict[str, Shape] = {
    "cohere": Shape(
        ("v1/rerank", "v2/rerank"),
        {"model": str, **_ASKED},
        {"top_n": int, "max_tokens_per_doc": int, "priority": int},
        _cohere,
    ),
    "jina": Shape(("v1/rerank",), _ASKED, _JINA, _jina),
    "vllm": Shape(
        ("rerank", "v1/rerank", "v2/rerank"),
        _ASKED,
        {"model": str, "top_n": int, "truncate_prompt_tokens": int, "use_activation": bool},
        _vllm,
        lambda body: body.get("use_activation") is False,
    ),
    "tei": Shape(
        ("rerank",),
        {"query": str, "texts": list},
        {"raw_scores": bool, "return_text": bool, "truncate": bool, "truncation_direction": str},
        lambda rows, tokens, units: rows,
        lambda body: bool(body.get("raw_scores")),
        texts="texts",
        score="score",
        most=32,
    ),
    "infinity": Shape(
        ("rerank",), _ASKED, {**_JINA, "raw_scores": bool}, _jina, lambda body: bool(body.get("raw_scores")), most=2048
    ),
    "voyage": Shape(
        ("v1/rerank",),
        {"model": str, **_ASKED},
        {"top_k": int, "truncation": bool, "return_documents": bool},
        _voyage,
        limit="top_k",
    ),
}
"""By the first part of an endpoint's path."""
