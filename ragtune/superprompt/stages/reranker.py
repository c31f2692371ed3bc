"""ReRanker: a second order of the candidates, from prompt and chunk together, and the ways to make it (rule E8)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import sqrt
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ragtune.core.errors import StageError
from ragtune.core.interfaces import BaseReranker
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.budget import CostBudget
from ragtune.core.request.context import CostMeter, RAGtuneContext
from ragtune.core.tokens import count_tokens
from ragtune.core.types import ScoredDocument
from ragtune.superprompt.memory.documents import TermIndex
from ragtune.superprompt.memory.sections import Sections
from ragtune.superprompt.options import CROSS_ENCODER, PipelineConfig
from ragtune.superprompt.reading.text import language_of, terms
from ragtune.superprompt.rendering import normalized_query, rerank_query, subject_words
from ragtune.superprompt.stages.base import BaseStage
from ragtune.superprompt.super_prompt import SuperPrompt

NO_RERANKER = "the ReRanker changed nothing: no reranker is set, so the order is that of Retrieval"

_DECIMALS = 6
_LEAST = 1e-6
_SAMPLE = 2_000
_MAX_DIMENSIONS = 200
_FEEDBACK = 5
_TIE = 1.0 + 1e-6

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Reranked:
    """All candidates, best first, and calibrated scores in [0, 1]; ``details`` may have ``support`` or ``relevance``.

    Both are by id. ``relevance`` is P(relevant) of a fitted model, for which A3 needs no other candidates.
    """

    ids: list[str]
    scores: dict[str, float]
    details: dict[str, Any] = field(default_factory=dict)


class BaseRerankStage(ABC):
    """Orders candidates for a query."""

    label: str = "a reranker"

    @abstractmethod
    def order(self, body: Mapping[str, str], candidates: Sequence[ScoredDocument], meter: CostMeter) -> Reranked:
        """Return the same candidates, at least one, in a new order for a prompt's body; ties keep the given order."""


class TopRerankStage(BaseRerankStage):
    """Scores every candidate in one batch: the fixed depth of rule E8. Candidates without a score come last."""

    def __init__(self, reranker: BaseReranker, terms: LatentRerankStage | None = None) -> None:
        self.reranker = reranker
        self._terms = terms
        self.label = str(getattr(reranker, "model", type(reranker).__name__))

    @classmethod
    def cross_encoder(cls, model: str = CROSS_ENCODER, **options: Any) -> TopRerankStage:
        """With a cross-encoder of sentence-transformers, see :class:`CrossEncoderReranker` for the options."""
        from ragtune.rerankers.models.cross_encoder import CrossEncoderReranker

        return cls(CrossEncoderReranker(model, **options))

    def order(self, body: Mapping[str, str], candidates: Sequence[ScoredDocument], meter: CostMeter) -> Reranked:
        items = [PoolItem.from_document(doc, rank, {"retrieval": doc.score}) for rank, doc in enumerate(candidates)]
        context = RAGtuneContext(
            query=rerank_query(body), query_id="", tracker=CostBudget.unlimited().create_tracker(), meter=meter
        )
        expected = self.reranker.expected_cost(items, context)
        scores = self.reranker.rerank(items, context, "default")
        if meter.charged is None:
            meter.charge(expected)
        ranked = sorted((doc.id for doc in candidates if doc.id in scores), key=lambda doc_id: -scores[doc_id])
        unscored = [doc.id for doc in candidates if doc.id not in scores]
        outcome = Reranked([*ranked, *unscored], {doc_id: float(scores[doc_id]) for doc_id in ranked})
        return self._with_relevance(outcome, body, candidates, meter)

    def _with_relevance(
        self, outcome: Reranked, body: Mapping[str, str], candidates: Sequence[ScoredDocument], meter: CostMeter
    ) -> Reranked:
        """The outcome with P(relevant): the mean log odds of the reranker's scores and of the terms' probabilities."""
        found = {} if self._terms is None else self._terms.order(body, candidates, meter).details.get("relevance", {})
        for chunk_id in sorted(found.keys() & outcome.scores.keys()):
            mean = sqrt(max(_LEAST, odds_of(found[chunk_id]) * odds_of(outcome.scores[chunk_id])))
            outcome.details.setdefault("relevance", {})[chunk_id] = round(mean / (1.0 + mean), _DECIMALS)
        return outcome


class BudgetedRerankStage(TopRerankStage):
    """Scores at most ``docs`` candidates of a prompt, chosen by the posterior, and stops once the top is settled."""

    def __init__(self, reranker: BaseReranker, docs: int, terms: LatentRerankStage | None = None) -> None:
        super().__init__(reranker, terms)
        self.docs = docs
        self.label += ", under a budget"

    def order(self, body: Mapping[str, str], candidates: Sequence[ScoredDocument], meter: CostMeter) -> Reranked:
        from ragtune.facade.reranker import BudgetedReranker

        texts = [candidate.content for candidate in candidates]
        budgeted = BudgetedReranker(self.reranker, docs=self.docs, policy="settled", batch_size=2)
        ranking = budgeted.rank(rerank_query(body), texts, [candidate.score for candidate in candidates])
        meter.charge(ranking.cost)
        ids = [candidates[one.index].id for one in ranking]
        scores = {i: one.reranker_score for i, one in zip(ids, ranking, strict=True) if one.reranker_score is not None}
        details: dict[str, Any] = {"dropped": {candidates[i].id: why for i, why in ranking.failures.items()}}
        if ranking.stop is not None:
            details["stop"] = ranking.stop.model_dump()
        return self._with_relevance(Reranked(ids, scores, details), body, candidates, meter)


class LatentRerankStage(BaseRerankStage):
    """Scores by the mean of two cosines, mapped to [0, 1] by (1 + mean) / 2.

    One cosine is of TF-IDF vectors. The other is in the collection's latent space (Deerwester et al. 1990) with
    log-entropy weights (Dumais 1991) and the five best texts as relevance feedback (Rocchio 1971). The latent space
    has ``2 sqrt(n)`` dimensions for n texts, at most 200, learned once from at most 2,000 texts. With sections the
    scores are P(relevant).

    ``details["support"]`` has each candidate's mean without feedback, reduced by words of the prompt that the
    collection does not know or does not relate to its subjects. It is low where the collection is about something else.

    ``language`` is that of the documents: a prompt in another one keeps the order and gets no scores.
    """

    label = "terms and latent semantic analysis of the documents, without a model"

    def __init__(
        self,
        index: TermIndex,
        request_words: Collection[str] = (),
        sections: Sections | None = None,
        language: str | None = None,
    ) -> None:
        self._index = index
        self._language = language
        self._request_words = frozenset(request_words)
        self._sections = sections

    def order(self, body: Mapping[str, str], candidates: Sequence[ScoredDocument], meter: CostMeter) -> Reranked:
        if self._language not in (None, language_of(normalized_query(body))):
            return Reranked([candidate.id for candidate in candidates], {})
        words = subject_words(body, self._request_words)
        texts = [candidate.content for candidate in candidates]
        if self._sections is not None:
            texts = [f"{self._sections.contexts.get(one.id, '')} {one.content}" for one in candidates]
        counts = [Counter(terms(text)) for text in (" ".join(word for word, _ in words), *texts)]
        rows, known = self._index.rows(counts, self._index.idf(self._index.frequencies), self._index.idf(0))
        lexical = (rows[1:] @ rows[0].T).toarray().ravel()
        latent = np.asarray(self._index.rows(counts, self._entropy, 1.0)[0] @ self._axes.T)
        length, axes = float(np.linalg.norm(latent[0])), _normalized(latent[1:])
        wanted = _normalized(latent[0])
        related = axes @ wanted
        best = np.argsort(-np.round(lexical + related, _DECIMALS), kind="stable")[:_FEEDBACK]
        refined = _normalized(wanted + _normalized(axes[best].mean(axis=0)))
        means = np.round((lexical + axes @ refined) / 2.0, _DECIMALS)
        if self._sections is not None:
            ids, wording = [candidate.id for candidate in candidates], [term for _, term in words]
            relevance = np.round(self._sections.relevance(wording, ids, texts, means), _DECIMALS)
            order = np.argsort(-relevance, kind="stable")
            scores = {ids[n]: float(relevance[n]) for n in order}
            return Reranked(list(scores), scores, {"relevance": scores})
        support = np.round(known[0] * (lexical + length * related) / 2.0, _DECIMALS).tolist()
        order = np.argsort(-means, kind="stable")
        scores = {candidates[place].id: (1.0 + float(means[place])) / 2.0 for place in order}
        return Reranked(list(scores), scores, {"support": dict(zip((c.id for c in candidates), support, strict=True))})

    @cached_property
    def _entropy(self) -> Vector:
        """Weights of the terms: 1 for a term of a single text, 0 for a term that all texts share equally."""
        counts = self._index.counts.tocsc()
        share = counts.data / np.repeat(np.asarray(counts.sum(axis=0)).ravel(), np.diff(counts.indptr))
        columns = np.repeat(np.arange(counts.shape[1]), np.diff(counts.indptr))
        spread = np.bincount(columns, share * np.log(share), counts.shape[1])
        weights: Vector = 1.0 + spread / np.log(max(2, counts.shape[0]))
        return weights

    @cached_property
    def _axes(self) -> Vector:
        """Axes of the latent space, shape (dimensions, terms); none for a tiny collection."""
        from scipy.sparse import diags
        from scipy.sparse.linalg import svds
        from threadpoolctl import threadpool_limits

        counts = self._index.counts
        matrix = counts[:: 1 + (counts.shape[0] - 1) // _SAMPLE] @ diags(self._entropy)
        lengths = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
        matrix = diags(1.0 / np.where(lengths > 0.0, lengths, 1.0)) @ matrix
        dimensions = min(_MAX_DIMENSIONS, int(2.0 * sqrt(matrix.shape[0])), min(matrix.shape) - 1)
        if dimensions < 1 or not matrix.nnz:
            return np.zeros((0, counts.shape[1]))
        with threadpool_limits(1, "blas"):  # more threads wait for each other in products of this size
            # A fixed start, because ARPACK's own is random.
            most = min(dimensions + 1, min(matrix.shape) - 1)
            _, values, axes = svds(matrix, k=most, v0=np.ones(min(matrix.shape)))
        # Axes with one singular value are any of their plane, so none stays that ties with the least one.
        kept: Vector = axes[values > values.min() * _TIE]
        return kept


def odds_of(probability: float) -> float:
    """Return p / (1 - p) of a probability, at most a million."""
    return probability / max(1.0 - probability, _LEAST)


def _normalized(vectors: Vector) -> Vector:
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    unit: Vector = vectors / np.where(lengths > 0.0, lengths, 1.0)
    return unit


class ReRanker(BaseStage):
    """Deterministic: score descending, ties by Retrieval's order. A notice names what reranked."""

    name: ClassVar[str] = "ReRanker"

    def __init__(self, rerank_stage: BaseRerankStage | None = None) -> None:
        self.rerank_stage = rerank_stage

    def apply(self, sp: SuperPrompt, config: PipelineConfig, meter: CostMeter) -> None:
        stage = self.rerank_stage
        ids = sp.views_by_stage["retrieval"][: config.limits.n2_rerank_top_k]
        scores = sp.extras.get("retrieval", {}).get("scores", {})
        candidates = [
            ScoredDocument(
                id=chunk.id,
                content=chunk.snippet,
                score=scores.get(chunk.id, 0.0),
                original_score=scores.get(chunk.id, 0.0),
                token_count=count_tokens(chunk.snippet),
            )
            for chunk in sp.chunks(ids)
        ]
        outcome = Reranked(ids, {})
        if stage is not None and candidates:
            outcome = stage.order(sp.body, candidates, meter)
        if sorted(outcome.ids) != sorted(ids):
            raise StageError(f"{type(stage).__name__} returned other candidates than it received")
        sp.views_by_stage["reranked"] = list(outcome.ids)
        sp.extras["reranked"] = {"rerank_stage": "none", "scores": outcome.scores}
        message = NO_RERANKER
        if stage is not None:
            names = {"rerank_stage": type(stage).__name__, "reranker": stage.label}
            sp.extras["reranked"] |= names | outcome.details
            message = f"reranked by {stage.label}"
            if list(outcome.ids) == ids:
                message += ": the ReRanker changed nothing, the order is that of Retrieval"
        if len(ids) > 1:
            sp.add_notice(self.name, message)
