"""Index, retrieve and rerank (rules D5 to D9 and D16)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ragtune.canonical.embedding import embed
from ragtune.canonical.fusion import LEXICAL, VECTOR
from ragtune.canonical.fusion import fuse as fuse  # its former place
from ragtune.canonical.normalization import check_string
from ragtune.canonical.policies import RetrievalPlan
from ragtune.canonical.store.base import BaseSearcher, BaseStore
from ragtune.canonical.types import Candidate, Chunk
from ragtune.core.errors import InputError, InvalidScoreError
from ragtune.core.interfaces import BaseReranker
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.budget import CostBudget
from ragtune.core.request.context import RAGtuneContext
from ragtune.data.caches.diskcache import AUTO


def index(chunks: Sequence[Chunk], store: BaseStore) -> dict[str, Any]:
    """Embed chunks by the store's embedder and upsert them in one transaction; idempotent.

    Args:
        chunks: all chunks of some documents; other stored chunks of these documents are deleted.
        store: the store that the chunks are written to.

    Returns:
        The ``collection``, the counts of :class:`ragtune.canonical.types.UpsertCounts`, and the storage ``keys`` of the
        given chunks, ``[doc_id, chunk_index]``, in their order.

    Raises:
        InputError: on a chunk without ``doc_id``, a repeated key, or what a store cannot keep; nothing is written.
        StoreError: if the database fails; nothing is written.

    Examples:
        >>> from ragtune.canonical.chunking import chunk
        >>> from ragtune.canonical.retrieval import index
        >>> from ragtune.canonical.store.memory import MemoryDatabase
        >>> from ragtune.embedders.hashing import HashingEmbedder
        >>> store = MemoryDatabase().open("docs", HashingEmbedder(dims=64), create=True)
        >>> index(chunk("Green tea is not fermented.", doc_id="tea"), store)["inserted"]
        1
    """
    counts = store.upsert(chunks, embed(chunks, store.embedder))
    keys = [[chunk.doc_id, chunk.chunk_index] for chunk in chunks]
    return {"collection": store.collection.name, **counts.model_dump(), "keys": keys}


_DEFAULT = RetrievalPlan()


def retrieve(
    query: str, plan: RetrievalPlan | None, store: BaseSearcher, *, cache_dir: str | Path | None = AUTO
) -> list[Candidate]:
    """The ``plan.k`` best candidates; deterministic for a given state of the store.

    Args:
        query: any text.
        plan: how candidates are retrieved; None is vector search with k = 12.
        store: the store that is searched.
        cache_dir: where the query's vector is cached, as in :func:`ragtune.canonical.embed`. Services pass None, as a
            write to the disk takes longer than the search.

    Returns:
        Best first, ties by (doc_id, chunk_index). The score is the cosine (``vector``), BM25 (``lexical``), or the
        fusion of both lists of ``plan.candidate_pool`` candidates (``hybrid``); ``sources`` has the
        scores of the lists that held the candidate.

    Raises:
        InputError: on a query or filter that no text or metadata could match: NUL, lone surrogates, or no JSON.
        StoreError: if the database fails.

    Examples:
        >>> from ragtune.canonical.chunking import chunk
        >>> from ragtune.canonical.policies import RetrievalPlan
        >>> from ragtune.canonical.retrieval import index, retrieve
        >>> from ragtune.canonical.store.memory import MemoryDatabase
        >>> from ragtune.embedders.hashing import HashingEmbedder
        >>> store = MemoryDatabase().open("docs", HashingEmbedder(dims=64), create=True)
        >>> _ = index(chunk("Green tea is not fermented.", doc_id="tea"), store)
        >>> [candidate.doc_id for candidate in retrieve("green tea", RetrievalPlan(mode="lexical"), store)]
        ['tea']
    """
    check_string(query, "query")
    plan = plan or _DEFAULT
    if plan.mode == LEXICAL:
        return store.lexical_candidates(query, plan.k, plan.filters)
    vector = embed([query], store.embedder, cache_dir=cache_dir)[0]
    if plan.mode == VECTOR:
        return store.vector_candidates(vector, plan.k, plan.filters)
    if plan.fusion == "fitted":
        if not (fitted := store.settings.get("fusion")):
            raise InputError("fusion='fitted': the collection has no fitted weights: ragtune search --fit makes them")
        plan = plan.model_copy(update=fitted)
    return store.hybrid_candidates(query, vector, plan)


def rerank(query: str, candidates: Sequence[Candidate], model: BaseReranker | None = None) -> list[Candidate]:
    """Candidates by the model's score in [0, 1], ties by (doc_id, chunk_index); as they are where ``model`` is None."""
    if model is None or not candidates:
        return list(candidates)
    by_id = {f"{candidate.doc_id}#{candidate.chunk_index}": candidate for candidate in candidates}
    if len(by_id) < len(candidates):
        raise InputError("candidates: one occurs twice, allowed is once")
    items = [
        PoolItem(
            doc_id=doc_id,
            content=candidate.content,
            metadata=candidate.metadata,
            sources=candidate.sources or {"candidates": candidate.score},
            initial_rank=rank,
            retrieval_score=candidate.score,
        )
        for rank, (doc_id, candidate) in enumerate(by_id.items())
    ]
    tracker = CostBudget.unlimited().create_tracker()
    context = RAGtuneContext(query=query, query_id=query, tracker=tracker)
    scores = model.rerank(items, context, "default")
    for doc_id, score in scores.items():
        if not math.isfinite(score):
            raise InvalidScoreError(f"score {score!r} of candidate {doc_id!r}: allowed is a finite number")
    scored = [by_id[doc_id].model_copy(update={"score": float(score)}) for doc_id, score in scores.items()]
    return sorted(scored, key=lambda candidate: (-candidate.score, candidate.key))
