"""Embeddings in batches, each text recorded by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from ragtune.core.errors import LLMError
from ragtune.core.tokens import count_tokens
from ragtune.core.types import CostObject
from ragtune.llm.cache import AnswerCache, RecordedVector
from ragtune.llm.calls import Caller
from ragtune.llm.transport import Reply
from ragtune.llm.types import EmbeddingResult, well_formed
from ragtune.llm.wire import read_embeddings

Map = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]


def embed_texts(caller: Caller, texts: list[str], batch: int, run: Map) -> EmbeddingResult:
    """The vectors of ``texts``, those that are not recorded fetched ``batch`` at a time.

    Args:
        caller: sends requests, or does not.
        texts: any, one or more times each.
        batch: texts a request.
        run: maps a function over inputs, failures as errors in their place.

    Raises:
        ServiceError, CacheMissError: see :meth:`ragtune.llm.client.LLMClient.embed`.
    """
    texts = [well_formed(text) for text in texts]
    keys = {text: AnswerCache.key("embedding", _body(caller, [text])) for text in dict.fromkeys(texts)}
    known = caller.cache.vectors(list(keys.values())) if caller.cache else {}
    unknown = [text for text, key in keys.items() if key not in known]
    if unknown and caller.mode == "replay":
        raise caller.miss(keys[unknown[0]], unknown[0])
    batches = [unknown[start : start + batch] for start in range(0, len(unknown), batch)]
    fetched = run(lambda some: _fetch(caller, some, keys), batches)
    for outcome in fetched:
        if isinstance(outcome, LLMError):
            raise outcome
        known |= outcome[0]
    rows = [known[key] for key in keys.values()]
    paid = _paid(caller, [known[keys[text]] for text in unknown], [reply for _, reply in fetched])
    tokens = sum(row.prompt_tokens for row in rows)
    arrays = {text: known[key].array() for text, key in keys.items()}
    return EmbeddingResult(
        vectors=np.stack([arrays[text] for text in texts]) if texts else np.zeros((0, 0), dtype=np.float32),
        model=caller.parameters.model,
        prompt_tokens=tokens,
        usd=caller.price.usd(tokens, 0),
        latency_ms=sum(row.latency_ms for row in rows),
        cached=not unknown,
        attempts=sum(reply.attempts for _, reply in fetched),
        calls=-(-len(keys) // batch),
        is_estimated=any(row.is_estimated for row in rows),
        paid=paid,
    )


def _fetch(caller: Caller, texts: list[str], keys: dict[str, bytes]) -> tuple[dict[bytes, RecordedVector], Reply[Any]]:
    reply = caller.post(
        "embeddings",
        _body(caller, texts),
        keys[texts[0]],
        lambda body: read_embeddings(body, len(texts)),
        caller.deadline(),
    )
    vectors, usage = reply.body
    counts = [count_tokens(text) for text in texts]
    is_estimated = usage.prompt_tokens is None
    tokens = sum(counts) if usage.prompt_tokens is None else usage.prompt_tokens
    parts = shares(counts, tokens + (reply.wasted.prompt_tokens or 0))
    latency_ms = (reply.latency_ms + reply.wasted_ms) / len(texts)
    records = {
        keys[text]: RecordedVector.of(vector, share, latency_ms, is_estimated)
        for text, vector, share in zip(texts, vectors, parts, strict=True)
    }
    if caller.cache:
        caller.cache.put(records)
    return records, reply


def _body(caller: Caller, texts: list[str]) -> dict[str, Any]:
    # Not base64, which is the library's own default and unknown to some servers.
    return {"model": caller.parameters.model, "input": texts, "encoding_format": "float", **caller.parameters.extra}


def shares(counts: Sequence[int], total: int) -> list[int]:
    """``total`` split in proportion to ``counts``, in whole numbers that sum to it."""
    steps = [0, *accumulate(max(1, count) for count in counts)]
    return [total * high // steps[-1] - total * low // steps[-1] for low, high in pairwise(steps)]


def _paid(caller: Caller, rows: Sequence[RecordedVector], replies: Sequence[Reply[Any]]) -> CostObject:
    tokens = sum(row.prompt_tokens for row in rows)
    elapsed = sum(reply.latency_ms + reply.wasted_ms for reply in replies)
    return CostObject(tokens=tokens, calls=len(replies), latency_ms=elapsed, usd=caller.price.usd(tokens, 0))
