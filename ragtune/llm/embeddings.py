"""Embeddings in batches, each text recorded by itself."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from ragtune.core.errors import LLMError
from ragtune.core.plain import well_formed
from ragtune.core.tokens import count_tokens
from ragtune.core.types import CostObject
from ragtune.llm.cache import AnswerCache, RecordedVector
from ragtune.llm.calls import Caller
from ragtune.llm.parallel import map_all
from ragtune.llm.types import EmbeddingResult
from ragtune.llm.wire import read_embeddings


def embed_texts(caller: Caller, texts: Sequence[str], batch: int, at_once: int) -> EmbeddingResult:
    """Return the vectors of ``texts``; those that are not recorded are fetched.

    Args:
        caller: sends requests or reads the record.
        texts: any texts; equal ones are sent once.
        batch: texts a request.
        at_once: requests under way at once.

    Raises:
        ServiceError, CacheMissError: see :meth:`ragtune.llm.client.LLMClient.embed`.
    """
    texts = [well_formed(text) for text in texts]
    keys = {text: AnswerCache.key("embedding", _body(caller, [text])) for text in dict.fromkeys(texts)}
    recorded = caller.cache.get(list(keys.values())) if caller.cache else {}
    known = {key: record for key, record in recorded.items() if isinstance(record, RecordedVector)}
    unknown = [text for text, key in keys.items() if key not in known]
    if unknown and caller.mode == "replay":
        raise caller.miss(keys[unknown[0]], unknown[0])
    batches = [unknown[start : start + batch] for start in range(0, len(unknown), batch)]
    for outcome in map_all(lambda some: _fetch(caller, some, keys), batches, at_once):
        if isinstance(outcome, LLMError):
            raise outcome
        known |= outcome
    arrays = {text: known[key].array() for text, key in keys.items()}
    return EmbeddingResult(
        vectors=np.stack([arrays[text] for text in texts]) if texts else np.zeros((0, 0), dtype=np.float32),
        cost=_cost(caller, [known[key] for key in keys.values()], -(-len(keys) // batch)),
        paid=_cost(caller, [known[keys[text]] for text in unknown], len(batches)),
        is_estimated=any(known[key].is_estimated for key in keys.values()),
    )


def _fetch(caller: Caller, texts: list[str], keys: dict[str, bytes]) -> dict[bytes, RecordedVector]:
    body = _body(caller, texts)
    reply = caller.post("embeddings", body, lambda got: read_embeddings(got, len(texts)), caller.deadline())
    vectors, usage = reply.body
    counts = [count_tokens(text) for text in texts]
    is_estimated = usage.prompt_tokens is None
    tokens = sum(counts) if usage.prompt_tokens is None else usage.prompt_tokens
    parts = shares(counts, tokens + (reply.wasted.prompt_tokens or 0))
    records = {
        keys[text]: RecordedVector.of(vector, part, reply.latency_ms / len(texts), is_estimated)
        for text, vector, part in zip(texts, vectors, parts, strict=True)
    }
    if caller.cache:
        caller.cache.put(records)
    return records


def _body(caller: Caller, texts: list[str]) -> dict[str, Any]:
    return {"model": caller.parameters.model, "input": texts, "encoding_format": "float", **caller.parameters.extra}


def shares(counts: Sequence[int], total: int) -> list[int]:
    """Split ``total`` in proportion to ``counts``, into whole numbers that sum to it."""
    steps = [0, *accumulate(max(1, count) for count in counts)]
    return [total * high // steps[-1] - total * low // steps[-1] for low, high in pairwise(steps)]


def _cost(caller: Caller, rows: Sequence[RecordedVector], calls: int) -> CostObject:
    tokens = sum(row.prompt_tokens for row in rows)
    elapsed_ms = sum(row.took_ms for row in rows)
    return CostObject(tokens=tokens, calls=calls, latency_ms=elapsed_ms, usd=caller.price.usd(tokens, 0))
