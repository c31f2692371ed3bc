"""Index, retrieve, fuse and rerank (rules D5 to D9 and D16)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ragtune.canonical.embedding import embed
from ragtune.canonical.normalization import check_string
from ragtune.canonical.policies import RetrievalPlan
from ragtune.canonical.store.base import BaseStore
from ragtune.canonical.types import Candidate, CandidateSets, Chunk
from ragtune.core.arguments import check_choice
from ragtune.core.errors import ConfigError, InputError, InvalidScoreError
from ragtune.core.interfaces import BaseFusion, BaseReranker
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.budget import CostBudget
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import ScoredDocument
from ragtune.data.caches.diskcache import AUTO
from ragtune.fusion.concat import ConcatFusion
from ragtune.fusion.rrf import RRFFusion


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


VECTOR, LEXICAL = "vector", "lexical"
"""Names of the two lists, in ``Candidate.sources``."""

_DEFAULT = RetrievalPlan()


def retrieve(
    query: str, plan: RetrievalPlan | None, store: BaseStore, *, cache_dir: str | Path | None = AUTO
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
        reciprocal rank fusion of both lists of ``plan.candidate_pool`` candidates (``hybrid``); ``sources`` has the
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
    if plan.mode == VECTOR:
        return _by_vector(query, plan, store, plan.k, cache_dir)
    if plan.mode == LEXICAL:
        return store.lexical_candidates(query, plan.k, plan.filters)
    lists = {
        VECTOR: _by_vector(query, plan, store, plan.candidate_pool, cache_dir),
        LEXICAL: store.lexical_candidates(query, plan.candidate_pool, plan.filters),
    }
    return fuse_first(plan.k, lists, "rrf", {"k": plan.rrf_k})


def _by_vector(
    query: str, plan: RetrievalPlan, store: BaseStore, k: int, cache_dir: str | Path | None
) -> list[Candidate]:
    return store.vector_candidates(embed([query], store.embedder, cache_dir=cache_dir)[0], k, plan.filters)


_METHODS: dict[str, type[BaseFusion]] = {"rrf": RRFFusion, "concat": ConcatFusion}


def fuse(
    candidate_sets: CandidateSets, method: str = "rrf", params: Mapping[str, Any] | None = None
) -> list[Candidate]:
    """One list without duplicates, best first, ties by (doc_id, chunk_index).

    Args:
        candidate_sets: ranked lists, each best first, by name or in order; the order of lists matters to ``concat``
            only.
        method: ``rrf`` (:class:`ragtune.fusion.rrf.RRFFusion`) or ``concat``
            (:class:`ragtune.fusion.concat.ConcatFusion`).
        params: of ``rrf``, ``k`` (60 by default) and ``weights`` by the name of a list; of ``concat``, none.

    Returns:
        Candidates with the fusion's score. ``sources`` joins those of all copies, and has a candidate's score in every
        list that has a name.

    Raises:
        ConfigError: on an unknown method or argument, one out of range, or the weight of a list that is not there.

    Examples:
        >>> from ragtune.canonical.retrieval import fuse
        >>> from ragtune.canonical.types import Candidate
        >>> one, two = (Candidate(doc_id=name, chunk_index=0, content=name, score=1.0) for name in ("d1", "d2"))
        >>> [found.doc_id for found in fuse({"lexical": [one, two], "vector": [two]})]
        ['d2', 'd1']
    """
    return fuse_first(None, candidate_sets, method, params or {})


def fuse_first(k: int | None, candidate_sets: CandidateSets, method: str, params: Mapping[str, Any]) -> list[Candidate]:
    """The first ``k`` of what :func:`fuse` gives, or all for None; copies of the others are not made."""
    try:
        fusion = _METHODS[check_choice("fuse method", method, _METHODS)](**params)
    except TypeError as error:
        raise ConfigError(f"fuse {method}: {error}") from None
    has_names = isinstance(candidate_sets, Mapping)
    if isinstance(candidate_sets, Mapping):
        named = dict(candidate_sets)
    else:
        named = {f"{place:09d}": candidates for place, candidates in enumerate(candidate_sets)}
    for name in params.get("weights") or ():
        check_choice(f"fuse {method} weights", name, sorted(named) if has_names else ("none",))
    copies: dict[tuple[str, int], list[Candidate]] = {}
    for candidates in named.values():
        for candidate in candidates:
            copies.setdefault(candidate.key, []).append(candidate)
    # Fusions break ties by id, so the ids are the places in the order of keys.
    keys = sorted(copies)
    ids = {key: f"{place:09d}" for place, key in enumerate(keys)}
    lists = {
        name: [ScoredDocument(id=ids[candidate.key], score=candidate.score) for candidate in candidates]
        for name, candidates in named.items()
    }
    fused = fusion.best(k, lists) if isinstance(fusion, RRFFusion) else fusion.fuse(lists)[:k]
    return [_merged(copies[keys[int(doc.id)]], doc, has_names) for doc in fused]


def _merged(copies: Sequence[Candidate], fused: ScoredDocument, has_names: bool) -> Candidate:
    sources: dict[str, float] = {}
    for copy in copies:
        sources = {**copy.sources, **sources}
    if has_names:
        sources |= fused.sources
    return copies[0].model_copy(update={"score": fused.score, "sources": dict(sorted(sources.items()))})


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
