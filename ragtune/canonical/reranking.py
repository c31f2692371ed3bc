"""Rerank (rules D9 and D16): candidates with the scores of any reranker."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ragtune.canonical.types import Candidate
from ragtune.core.errors import InputError, InvalidScoreError
from ragtune.core.interfaces import BaseReranker
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.budget import CostBudget
from ragtune.core.request.context import RAGtuneContext

_STRATEGY = "default"


def rerank(query: str, candidates: Sequence[Candidate], model: BaseReranker | None = None) -> list[Candidate]:
    """Candidates by the model's score, ties by (doc_id, chunk_index); deterministic for a given model.

    Args:
        query: the query that candidates are scored for.
        candidates: the candidates, each once, in any order.
        model: the reranker; None leaves candidates, scores and order as they are.

    Returns:
        Candidates with the model's score, in [0, 1], without those that it could not score.

    Raises:
        InputError: on a candidate that occurs twice.
        InvalidScoreError: on a score that is not a finite number.
    """
    if model is None or not candidates:
        return list(candidates)
    by_id = {f"{candidate.doc_id}#{candidate.chunk_index}": candidate for candidate in candidates}
    if len(by_id) < len(candidates):
        raise InputError("candidates: one occurs twice, allowed is once")
    items = [_item(doc_id, candidate, rank) for rank, (doc_id, candidate) in enumerate(by_id.items())]
    tracker = CostBudget.unlimited().create_tracker()
    context = RAGtuneContext(query=query, query_id=query, tracker=tracker)
    scores = model.rerank(items, context, _STRATEGY)
    for doc_id, score in scores.items():
        if not math.isfinite(score):
            raise InvalidScoreError(f"score {score!r} of candidate {doc_id!r}: allowed is a finite number")
    scored = [by_id[doc_id].model_copy(update={"score": float(score)}) for doc_id, score in scores.items()]
    return sorted(scored, key=lambda candidate: (-candidate.score, candidate.key))


def _item(doc_id: str, candidate: Candidate, rank: int) -> PoolItem:
    return PoolItem(
        doc_id=doc_id,
        content=candidate.content,
        metadata=candidate.metadata,
        sources=candidate.sources or {"candidates": candidate.score},
        initial_rank=rank,
        retrieval_score=candidate.score,
    )
