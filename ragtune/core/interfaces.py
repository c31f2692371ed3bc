"""The component interfaces. Each needs one method (rule S1).

A component must not let one request see anything of another. The line "State:" of each interface says what a component
may keep within a request. Caches that change no answer are always allowed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ragtune.core.arrays import FloatArray
from ragtune.core.component import Component, RerankerFacts, outcome_of
from ragtune.core.pool.items import PoolItem, RerankBatch
from ragtune.core.pool.ordering import Ordering, best_that_fit
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.pool.valuation import Belief
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import (
    FREE,
    BatchProposal,
    CostObject,
    RemainingBudgetView,
    ScoredDocument,
    StopRecord,
    price_by_count,
)


class BaseRetriever(Component, ABC):
    """First stage: finds candidates.

    State: none between requests; within a request, ``context.remember``.

    Examples:
        >>> class Newest(BaseRetriever):
        ...     def retrieve(self, context, top_k):
        ...         return [ScoredDocument(id=f"d{i}", score=10.0 - i) for i in range(3)][:top_k]
        >>> [document.id for document in Newest().retrieve(context=None, top_k=2)]
        ['d0', 'd1']
    """

    signals: Collection[str] = ()  # names of sources that mean the same in every retrieval round

    @abstractmethod
    def retrieve(self, context: RAGtuneContext, top_k: int) -> Sequence[ScoredDocument]:
        """Return at most ``top_k`` documents for ``context.query``, best first, without duplicates, scores finite.

        The result is a list or :class:`~ragtune.core.hits.Hits` and may be empty. Equal scores are ordered by document
        id. A union of recorded runs takes ``top_k`` of each run.
        """


class BaseSignal(Component, ABC):
    """Free evidence on retrieved documents (:class:`~ragtune.retrievers.signalled.SignalledRetriever`).

    State: none between requests; within a request, ``context.remember``.

    Examples:
        >>> class Clicks(BaseSignal):
        ...     def values(self, context, documents):
        ...         return {document.id: 12.0 for document in documents if document.id == "d1"}
        >>> Clicks().values(context=None, documents=[ScoredDocument(id="d1"), ScoredDocument(id="d2")])
        {'d1': 12.0}
    """

    is_witness: bool = True  # False where it reads the same words as a first stage: their agreement proves nothing

    @abstractmethod
    def values(self, context: RAGtuneContext, documents: Sequence[ScoredDocument]) -> Mapping[str, float]:
        """Return finite ``{doc_id: value}`` for ``context.query``, higher is better; unknown documents are left out."""


class BaseReformulator(Component, ABC):
    """Rewrites the query, so that the first stage finds more documents.

    State: none between requests; within a request, ``context.remember``.

    Attributes:
        is_active: False for the do-nothing reformulator, which is never charged.

    Examples:
        >>> class Plural(BaseReformulator):
        ...     def generate(self, context, first_round):
        ...         return ["teas"]
        >>> Plural().generate(context=None, first_round=[])
        ['teas']
    """

    is_active: bool = True

    @abstractmethod
    def generate(self, context: RAGtuneContext, first_round: Sequence[ScoredDocument]) -> list[str]:
        """Return rewrites of ``context.query``, without the original, given the documents of the original round.

        ``context.num_reformulations`` are wanted; more are ignored. The controller has charged the call; its real cost
        goes to ``context.meter``. An exception leaves the original retrieval alone (rule F5).
        """

    def expected_cost(self, context: RAGtuneContext, first_round: Sequence[ScoredDocument]) -> CostObject:
        """Return the expected tokens, time and money of :meth:`generate`, before it runs."""
        return FREE


class BaseFusion(ABC):
    """Merges ranked lists into one.

    State: none, neither between requests nor within one.

    Examples:
        >>> class First(BaseFusion):
        ...     def fuse(self, lists):
        ...         return list(next(iter(lists.values())))
        >>> [document.id for document in First().fuse({"bm25": [ScoredDocument(id="d1")], "dense": []})]
        ['d1']
    """

    @abstractmethod
    def fuse(self, lists: Mapping[str, Sequence[ScoredDocument]]) -> list[ScoredDocument]:
        """Return one list without duplicates, best first, from named lists, each best first.

        A document's ``sources`` are its scores in the lists. Its ``score`` and ``fusion_score`` are the fusion's.
        """


class BaseEstimator(Component, ABC):
    """Values the pool. It neither schedules nor spends (rule S2).

    State: none between requests; within a request, ``context.remember``. The scores in their order: ``pool.batches``.

    Attributes:
        compares: whether the estimator learns only from windows that it asks for (``Valuation.window``). It needs a
            scheduler that sends them (:attr:`BaseScheduler.sends_again`); the controller refuses any other.

    Examples:
        >>> class ShortFirst(BaseEstimator):
        ...     def value(self, pool, context):
        ...         return pool.valuation(1 / (1 + pool.roster.token_counts))
        >>> pool = CandidatePool([PoolItem("long", token_count=9), PoolItem("short", token_count=1)])
        >>> dict(ShortFirst().value(pool, context=None))
        {'long': 0.1, 'short': 0.5}
    """

    compares: bool = False

    @abstractmethod
    def value(self, pool: CandidatePool, context: RAGtuneContext) -> Mapping[str, float]:
        """Return ``{doc_id: priority_value}`` in [0, 1] for the eligible documents: a dict, or ``pool.valuation(...)``.

        The loop calls this before the first batch, after every batch, and again where an expander has added documents;
        the pool is not empty.
        """


class BaseScheduler(Component, ABC):
    """Chooses the next batch. It neither spends nor moves items (rule S3).

    State: none, neither between requests nor within one. The past of a request is ``pool.batches``.

    Attributes:
        sends_again: whether the scheduler may propose documents that have a score already (rule P3), as comparisons in
            windows do. Otherwise the request ends where no candidate is left.

    Examples:
        >>> from ragtune.core.policy.batching import propose
        >>> class Pairs(BaseScheduler):
        ...     def select_batch(self, pool, budget):
        ...         return propose(pool.top_candidates(2), budget)
        >>> pool = CandidatePool(PoolItem(f"d{i}", initial_rank=i) for i in range(5))
        >>> Pairs().select_batch(pool, RemainingBudgetView(remaining_rerank_docs=1)).doc_ids
        ['d0']
    """

    sends_again: bool = False

    @abstractmethod
    def select_batch(self, pool: CandidatePool, budget: RemainingBudgetView) -> BatchProposal | StopRecord | None:
        """Return the next batch of CANDIDATE items, or a reason to stop (None: nothing more to propose).

        The decision must be deterministic; ties are broken by ``initial_rank``, then ``doc_id`` (rule O4). The loop
        calls this once before each batch, with the pool as it is then:

        - ``pool.top_candidates(n)`` returns the n best candidates by the estimator's latest values, and
          :func:`ragtune.core.policy.batching.propose` cuts such a list to what the budget affords.
        - ``pool.batches`` holds every batch sent so far, see :class:`~ragtune.core.pool.items.SentBatch`.
        - ``pool.reranked`` and all other arrays are in the order of the pool, not of scoring.
        - ``pool.rankings`` holds the final order (ids, best first) before the first batch and after each one.

        A stop is ``StopRecord(reason="my_reason", source="scheduler", details={...})``.
        """


class BaseAcquisition(ABC):
    """Utility of scoring each candidate next, given a belief about all.

    State: none, neither between requests nor within one.

    Examples:
        >>> from ragtune.core.pool.valuation import EmpiricalBelief
        >>> class LeastCertain(BaseAcquisition):
        ...     def utility(self, belief, pool):
        ...         return belief.variance
        >>> int(LeastCertain().utility(EmpiricalBelief(np.full(2, 0.5), np.array([0.9, np.nan])), None).argmax())
        1
    """

    @abstractmethod
    def utility(self, belief: Belief, pool: CandidatePool) -> FloatArray:
        """Return shape (n,), any scale; the scheduler takes the eligible documents with the highest values."""


class BaseReranker(Component, ABC):
    """The expensive scorer.

    State: none between requests; within a request, ``context.remember``.

    Attributes:
        facts: what it states of its scores and prices. A class states what its instances share; an instance may add.

    Examples:
        >>> class Mentions(BaseReranker):
        ...     def rerank(self, items, context, strategy):
        ...         return {item.doc_id: float("tea" in item.content) for item in items}
        >>> Mentions().rerank([PoolItem("a", "green tea"), PoolItem("b", "salt")], context=None, strategy="default")
        {'a': 1.0, 'b': 0.0}
    """

    facts: RerankerFacts = RerankerFacts()

    @abstractmethod
    def rerank(self, items: Sequence[PoolItem], context: RAGtuneContext, strategy: str) -> dict[str, float]:
        """Return ``{doc_id: calibrated relevance in [0, 1]}``; documents without a score are left out (rules F1, F6).

        A value that is no number in [0, 1] costs its own document only. The real tokens, time and money of the batch,
        failed or not, go to ``context.meter``; the loop counts documents.
        """

    def rerank_many(self, batches: Sequence[RerankBatch]) -> list[Mapping[str, float] | Exception]:
        """Score batches of several requests: for each the result of :meth:`rerank`, or the error that it raises.

        Override it where many documents are scored faster together. A batch's scores must not depend on the others,
        and its cost goes to its own ``context.meter``.
        """
        return [outcome_of(batch, self) for batch in batches]

    def expected_cost(self, items: Sequence[PoolItem], context: RAGtuneContext) -> CostObject:
        """Return the expected tokens, time and money of this batch, before it runs.

        The loop counts documents itself, and at least one call a batch.
        """
        return price_by_count([""] * len(items), "")


class BaseAssembler(Component, ABC):
    """Turns the ranked pool into the context that the user gets.

    State: none between requests. It runs once a request.

    Attributes:
        ordering: the order of the final list and of the anytime history.

    Examples:
        >>> class Scored(BaseAssembler):
        ...     ordering = Ordering.RERANKED_FIRST
        >>> Scored().ordering.value
        'reranked_first'
    """

    ordering: Ordering = Ordering.FINAL_SCORE

    def assemble(self, items: Sequence[PoolItem], context: RAGtuneContext) -> list[ScoredDocument]:
        """Return the final documents, best first, paid for in tokens through ``context.tracker``.

        ``items`` are CANDIDATE, RERANKED or, where failures keep them, DROPPED (rule A2); ``ordering.sort`` ranks them.
        A document's ``score`` is its sort key. Tokens not paid for are charged afterwards. The default takes every
        document whose tokens fit, best first (rule A1), and skips one that does not fit for shorter ones behind it.
        """
        return best_that_fit(self.ordering, items, context)


class BaseExpander(Component, ABC):
    """Brings new documents into the pool between batches.

    State: none between requests; within a request, ``context.remember``. The scores in their order: ``pool.batches``.

    Attributes:
        is_active: False for the do-nothing expander.

    Examples:
        >>> class Neighbour(BaseExpander):
        ...     def expand(self, pool, context, limit):
        ...         return [ScoredDocument(id="d9")][:limit]
        >>> [document.id for document in Neighbour().expand(pool=None, context=None, limit=1)]
        ['d9']
    """

    is_active: bool = True

    @abstractmethod
    def expand(self, pool: CandidatePool, context: RAGtuneContext, limit: int) -> Sequence[ScoredDocument]:
        """Return at most ``limit`` documents that the pool does not hold yet, best first, given the scores so far.

        Called after every batch, once the estimator has valued the pool, if another batch can be paid for.
        """


class BaseEmbedder(Component, ABC):
    """Turns texts into vectors whose dot product is a cosine.

    State: none, neither between requests nor within one. The same text always has the same vector.

    Examples:
        >>> class Length(BaseEmbedder):
        ...     name = "length"
        ...     def embed(self, texts):
        ...         return np.array([[float(bool(text))] for text in texts], dtype=np.float32)
        >>> Length().embed(["tea", ""]).tolist()
        [[1.0], [0.0]]
    """

    @abstractmethod
    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return shape (len(texts), d), rows L2-normalised, all zero for a text without known words."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the vectors in cache keys. The same name means the same vectors for the same text."""


class TextVectors(Protocol):
    """Vectors of documents, for components that compare documents by their texts.

    State: the vectors of a collection, made once; nothing of a request. Vectors of words set ``are_words = True``.
    """

    def of(self, items: Sequence[PoolItem]) -> Any:
        """Return L2-normalised rows, shape (len(items), d), as an array or a ``csr_matrix``."""

    def of_query(self, text: str) -> Any:
        """Return the vector of a query in the same form, shape (1, d); all zero without known words."""
