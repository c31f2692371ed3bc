"""Retrieve (rules D6 to D11 and D16): candidates by vector, by term, or both."""

from __future__ import annotations

from pathlib import Path

from ragtune.canonical.embedding import embed
from ragtune.canonical.fusing import fuse_first
from ragtune.canonical.normalization import check_string
from ragtune.canonical.policies import RetrievalPlan
from ragtune.canonical.store.base import BaseStore
from ragtune.canonical.types import Candidate
from ragtune.data.caches.diskcache import AUTO

VECTOR, LEXICAL = "vector", "lexical"
"""Names of the two lists, in ``Candidate.sources``."""

_DEFAULT = RetrievalPlan()


def retrieve(
    query: str, plan: RetrievalPlan | None, store: BaseStore, *, cache_dir: str | Path | None = AUTO
) -> list[Candidate]:
    """The ``plan.k`` best candidates; deterministic for a given state of the store.

    Args:
        query: any text; one without terms finds nothing by term, one of which the embedder knows nothing finds nothing
            by vector.
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
