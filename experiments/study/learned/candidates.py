"""What is known of a query's candidates before any is scored, and the scores of those that the prior pays for first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from experiments.evaluate.curves import FloatArray
from experiments.replay.build import Session
from ragtune.core.errors import ConfigError
from ragtune.core.pool.items import PoolItem
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.request.request import Request
from ragtune.data.text import terms
from ragtune.signals.lexical import agreements

BILL = 20
"""Documents of a query whose scores are learned from: those that the prior ranks first."""

FEATURES = (
    "the prior mean",
    "of each source the logarithm of the rank and the standardised score",
    "coverage, early match and bigrams of signal=lexical",
    "the logarithms of the numbers of terms in document and query",
)
"""What the columns of ``Candidates.features`` are, in words."""

_CLIP = 1e-6
"""Scores are kept this far from 0 and 1, as the posterior keeps them."""


@dataclass(frozen=True)
class Candidates:
    """The pool of one query: n documents, b of which were scored.

    Attributes:
        doc_ids: of the n documents.
        means: shape (n,), the prior means that the default begins with.
        features: shape (n, f), what is known before scoring; see :data:`FEATURES`.
        bill: shape (b,), positions of the documents that the prior ranks first.
        logits: shape (b,), the reranker's, of those.
    """

    doc_ids: Sequence[str]
    means: FloatArray
    features: FloatArray
    bill: Sequence[int]
    logits: FloatArray


def candidates_of(session: Session) -> dict[str, Candidates]:
    """The pools of the judged queries that found anything, by query id, in the collection's order.

    Args:
        session: of a policy whose estimator has a belief, with a recorded reranker.

    Raises:
        ConfigError: if the estimator has no belief, or scores are not recorded.
    """
    if not all(reranker.is_recorded for reranker in session.rerankers.values()):
        raise ConfigError("a prior is learned from recorded scores: give a score table, reranker.scores=FILE")
    asked = ((query_id, Request(session.dataset.queries[query_id], query_id)) for query_id in session.dataset.judged)
    begun = {query_id: session.controller.begin(request) for query_id, request in asked}
    found = {query_id: (pool, context) for query_id, (pool, context) in begun.items() if len(pool)}
    sources = list(dict.fromkeys(name for pool, _ in found.values() for item in pool.entries for name in item.sources))
    documents: dict[str, list[str]] = {}
    return {query_id: _candidates(session, *which, sources, documents) for query_id, which in found.items()}


def _candidates(
    session: Session,
    pool: CandidatePool,
    context: RAGtuneContext,
    sources: Sequence[str],
    documents: dict[str, list[str]],
) -> Candidates:
    belief = session.parts["estimator"].value(pool, context).belief
    if belief is None:
        raise ConfigError("the policy's estimator has no prior that could be learned: allowed is estimator=uncertainty")
    doc_ids, means = list(pool.doc_ids), np.asarray(belief.mean)
    bill = np.argsort(-means, kind="stable")[:BILL].tolist()
    reranker = next(iter(session.rerankers.values()))
    said = reranker.scores_of([doc_ids[i] for i in bill], context)
    clipped = np.clip([said[doc_ids[i]] for i in bill], _CLIP, 1.0 - _CLIP)
    query = terms(context.query)
    texts = [_terms(item, documents) for item in pool.entries]
    said_by = [column for name in sources for column in _source(pool.entries, name)]
    features = np.column_stack([_centred(means), *said_by, *_lexical(query, texts)])
    return Candidates(doc_ids, means, features, bill, np.log(clipped / (1.0 - clipped)))


def _terms(item: PoolItem, documents: dict[str, list[str]]) -> list[str]:
    """A document's terms; many queries find the same one."""
    if item.doc_id not in documents:
        documents[item.doc_id] = terms(item.content)
    return documents[item.doc_id]


def _source(items: Sequence[PoolItem], name: str) -> tuple[FloatArray, FloatArray]:
    """Rank and score by a source, 0 where it knows nothing of the query; what it lacks has its lowest score."""
    scores = np.array([item.sources.get(name, np.nan) for item in items])
    if np.isnan(scores).all():
        return np.zeros(len(items)), np.zeros(len(items))
    scores = np.where(np.isnan(scores), np.nanmin(scores), scores)
    ranks = np.empty(len(scores))
    ranks[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
    return _centred(-np.log1p(ranks)), _centred(scores) / (scores.std() or 1.0)


def _lexical(query: Sequence[str], texts: Sequence[Sequence[str]]) -> list[FloatArray]:
    """How the documents use the query's words, and how long both are; a query of one term has no bigrams."""
    parts = np.zeros((len(texts), 3))
    for row, text in zip(parts, texts, strict=True):
        said = agreements(query, text) if query else []
        row[: len(said)] = said
    lengths = np.log1p([len(text) for text in texts])
    return [*(_centred(part) for part in parts.T), _centred(lengths), np.full(len(texts), np.log1p(len(query)))]


def _centred(values: FloatArray) -> FloatArray:
    """Less the mean over the pool: what all candidates have in common tells none from another."""
    centred: FloatArray = values - values.mean()
    return centred


def first(candidates: Mapping[str, Candidates], queries: Sequence[str]) -> dict[str, Candidates]:
    """The pools of some queries."""
    return {query_id: candidates[query_id] for query_id in queries if query_id in candidates}
