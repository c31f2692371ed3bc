"""The component interfaces: each is one abstract method (rule S1).

No component may let one request see anything of another. The line "State:" of each interface says what the component
may keep within a request, and where; caches, whose content changes no answer, are allowed everywhere.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ragtune.core.arrays import FloatArray
from ragtune.core.component import Component
from ragtune.core.pool.assembled import best_that_fit
from ragtune.core.pool.batch import RerankBatch
from ragtune.core.pool.belief import Belief
from ragtune.core.pool.items import PoolItem
from ragtune.core.pool.ordering import Ordering
from ragtune.core.pool.pool import CandidatePool
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
from ragtune.core.units import SOMETIMES_TOLD


class BaseRetriever(Component, ABC):
    """First stage: finds candidates.

    State: none between requests; within a request, ``context.remember``.
    """

    signals: Collection[str] = ()  # names of sources that mean the same in every round: not what it finds documents by

    @abstractmethod
    def retrieve(self, context: RAGtuneContext, top_k: int) -> Sequence[ScoredDocument]:
        """At most ``top_k`` documents for ``context.query``, best first, without duplicates, scores finite.

        A list, or :class:`~ragtune.core.hits.Hits`, made only where read. May be empty. Equal scores are ordered by
        document id. A union of recorded runs takes ``top_k`` of each run.
        """


class BaseSignal(Component, ABC):
    """Free evidence on what a first stage has found (:class:`~ragtune.retrievers.signalled.SignalledRetriever`).

    State: none between requests; within a request, ``context.remember``.
    """

    is_witness: bool = True  # False where it reads the words that a first stage reads: agreement then proves nothing

    @abstractmethod
    def values(self, context: RAGtuneContext, documents: Sequence[ScoredDocument]) -> Mapping[str, float]:
        """``{doc_id: value}`` for ``context.query``: finite, higher is better; documents not known are left out."""


class BaseReformulator(Component, ABC):
    """Rewrites the query, so that the first stage can look for more.

    State: none between requests; within a request, ``context.remember``.
    """

    @abstractmethod
    def generate(self, context: RAGtuneContext, first_round: Sequence[ScoredDocument]) -> list[str]:
        """Rewrites of ``context.query`` (the original excluded), given what the original round found.

        ``context.num_reformulations`` are wanted; more are ignored. The controller has charged the call; what it
        really cost goes to ``context.meter``. An exception leaves the original retrieval alone (rule F5).
        """

    def expected_cost(self, context: RAGtuneContext, first_round: Sequence[ScoredDocument]) -> CostObject:
        """What :meth:`generate` is expected to be charged in tokens, time and money, before it runs."""
        return FREE

    @property
    def unpriced(self) -> frozenset[str]:
        """Units of a cost that is not free in which an expected 0 says that the price is not known."""
        return frozenset()

    @property
    def is_active(self) -> bool:
        """False for the do-nothing reformulator, which is never charged."""
        return True


class BaseFusion(ABC):
    """Merges ranked lists into one.

    State: none, neither between requests nor within one: the merged list depends on the given lists alone.
    """

    @abstractmethod
    def fuse(self, lists: Mapping[str, Sequence[ScoredDocument]]) -> list[ScoredDocument]:
        """One list without duplicates, best first, from named lists, each best first.

        A document's ``sources`` are its scores in the lists, its ``score`` and ``fusion_score`` the fusion's.
        """


class BaseEstimator(Component, ABC):
    """Values the pool. It neither schedules nor spends (rule S2).

    State: none between requests; within a request, ``context.remember`` (what was scored when: ``pool.batches``).

    Attributes:
        compares: whether it learns from windows that it asks for (``Valuation.window``) and from nothing else. It needs
            a scheduler that sends them (:attr:`BaseScheduler.sends_again`); the controller refuses any other.
    """

    compares: bool = False

    @abstractmethod
    def value(self, pool: CandidatePool, context: RAGtuneContext) -> Mapping[str, float]:
        """``{doc_id: priority_value}`` in [0, 1] for the eligible documents: a dict, or ``pool.valuation(...)``.

        Called before the first batch, after every batch, and again where an expander has made the pool grow.
        """


class BaseScheduler(Component, ABC):
    """Chooses the next batch. It neither spends nor moves items (rule S3).

    State: none between requests, and none of its own within one: the past of a request is ``pool.batches``.

    Attributes:
        sends_again: whether it may propose documents that have a score already (rule P3), as comparisons in windows
            do; otherwise the request ends where no candidate is left.
    """

    sends_again: bool = False

    @abstractmethod
    def select_batch(self, pool: CandidatePool, budget: RemainingBudgetView) -> BatchProposal | StopRecord | None:
        """The next batch out of the CANDIDATE items, or a reason to stop (None: nothing more to propose).

        The decision must be deterministic; ties are broken by ``initial_rank``, then ``doc_id`` (rule O4).

        The method is called once before each batch and is given the pool as it is then:

        - ``pool.top_candidates(n)`` names the n best candidates by the estimator's latest word, and
          :func:`ragtune.core.policy.batching.propose` makes of such a list the batch that the budget affords, or the
          reason why nothing fits.
        - ``pool.batches`` holds every batch that was sent so far, in the order of scoring; ``len(pool.batches)`` says
          how many there were. The scores of one are ``batch.scores``, NaN for a document that the reranker failed to
          score, and its documents ``pool.doc_ids[i]`` for the ``i`` in ``batch.positions``.
        - ``pool.reranked`` and all other arrays are in the order of the pool, not of scoring. Where a scored document
          stands in the pool says nothing about when it was scored, and must not change the decision; the contract
          suite moves the scored documents to see that it does not.
        - ``pool.rankings`` holds the final order (ids, best first) before the first batch and after each one.

        A stop is ``StopRecord(reason="my_reason", source="scheduler", details={...})``.
        """


class BaseAcquisition(ABC):
    """What makes a candidate worth scoring next, given what is believed of all.

    State: none, neither between requests nor within one: the utility depends on the belief and the pool alone.
    """

    is_pointwise: bool = False
    """Whether a document's utility is one of its own mean and variance alone, and no higher at a lower variance."""

    @abstractmethod
    def utility(self, belief: Belief, pool: CandidatePool) -> FloatArray:
        """Shape (n,); the scheduler takes the eligible documents where it is highest. Any scale."""


class BaseReranker(Component, ABC):
    """The expensive scorer.

    State: none between requests; within a request, ``context.remember``.
    """

    compares: bool = False  # whether a score says how a document stands in its batch, not what it is worth (rule F6)

    @abstractmethod
    def rerank(self, items: Sequence[PoolItem], context: RAGtuneContext, strategy: str) -> dict[str, float]:
        """``{doc_id: calibrated relevance in [0, 1]}``; ids it could not score are left out (rules F1, F6).

        A score that is no number in [0, 1] costs the document that it belongs to, and no other. What the batch really
        cost in tokens, time and money, failed or not, goes to ``context.meter``; documents are counted by the loop.
        """

    def unpaid(self, items: Sequence[PoolItem], context: RAGtuneContext) -> Sequence[PoolItem]:
        """Those of the documents whose scores would have to be paid for now: all, unless some scores are kept."""
        return items

    def rerank_many(self, batches: Sequence[RerankBatch]) -> list[Mapping[str, float] | Exception]:
        """The batches of several requests at once: for each what :meth:`rerank` returns, or the error that it raises.

        A reranker that reads many documents faster together overrides this. A batch's scores must not depend on the
        others, and its cost goes to its own ``context.meter``."""
        outcomes: list[Mapping[str, float] | Exception] = []
        for batch in batches:
            try:
                outcomes.append(self.rerank(batch.items, batch.context, batch.strategy))
            except Exception as error:
                outcomes.append(error)
        return outcomes

    def expected_cost(self, items: Sequence[PoolItem], context: RAGtuneContext) -> CostObject:
        """The tokens, time and money that this batch is expected to be charged, before it runs.

        Documents are counted by the loop, and calls at least as one a batch, whatever is said here.
        """
        return price_by_count([""] * len(items), "")

    @property
    def unpriced(self) -> frozenset[str]:
        """Units in which an expected cost of 0 says that the price is not known, rather than that it is nothing."""
        return frozenset({"tokens", "latency_ms", "usd", *SOMETIMES_TOLD})

    def can_score(self, doc_id: str, context: RAGtuneContext) -> bool:
        """Whether the reranker can score that document for this request: always, unless scores are recorded."""
        return True

    @property
    def is_recorded(self) -> bool:
        """Whether every score is known beforehand, so that asking for one costs nothing."""
        return False

    @property
    def simulates_time(self) -> bool:
        """Whether the time that is charged was recorded, so that a virtual clock must keep it."""
        return self.is_recorded


class BaseAssembler(Component, ABC):
    """Turns the ranked pool into the context that the user gets.

    State: none between requests; it runs once a request, so that there is nothing to remember within one.

    Attributes:
        ordering: the order of the final list, which the anytime history is ranked by as well.
    """

    ordering: Ordering = Ordering.FINAL_SCORE

    def assemble(self, items: Sequence[PoolItem], context: RAGtuneContext) -> list[ScoredDocument]:
        """The final documents, best first, paid for in tokens through ``context.tracker``.

        ``items`` are CANDIDATE, RERANKED or, where failures keep them, DROPPED (rule A2); ``ordering.sort`` ranks them.
        A document's ``score`` is the key that the list is sorted by. Tokens not paid for are charged afterwards.

        Unless it is overridden, every document is taken whose tokens fit, best first (rule A1): one that does not fit
        is skipped, and shorter ones behind it still get their chance.
        """
        return best_that_fit(self.ordering, items, context)


class BaseExpander(Component, ABC):
    """Brings new documents into the pool between batches.

    State: none between requests; within a request, ``context.remember`` (what was scored when: ``pool.batches``).

    Attributes:
        is_active: False for the do-nothing expander.
        reads_estimates: whether it may depend on the estimator's word; if not, that is asked for after growth alone.
    """

    is_active: bool = True
    reads_estimates: bool = True

    @abstractmethod
    def expand(self, pool: CandidatePool, context: RAGtuneContext, limit: int) -> Sequence[ScoredDocument]:
        """At most ``limit`` documents that the pool does not hold yet, best first, given the scores seen so far.

        Called after every batch (:attr:`reads_estimates`: once the estimator has seen it), if another can be paid for.
        """


class BaseEmbedder(Component, ABC):
    """Turns texts into vectors whose dot product is a cosine.

    State: none, neither between requests nor within one: the same text has the same vector, always.
    """

    @abstractmethod
    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Shape (len(texts), d), rows L2-normalised (all zero for a text of which nothing is known)."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Identifies the vectors in cache keys: the same name means the same vectors for the same text."""


class TextVectors(Protocol):
    """Vectors of documents, for components that compare documents by their texts.

    State: the vectors of a collection, made once; nothing of a request. Those of words say ``are_words = True``.
    """

    def of(self, items: Sequence[PoolItem]) -> Any:
        """Rows L2-normalised, shape (len(items), d): an array, or a ``csr_matrix`` where the component says so."""
        ...

    def of_query(self, text: str) -> Any:
        """Shape (1, d), in the same form: where a query stands among the documents; all zero if nothing is known."""
        ...
