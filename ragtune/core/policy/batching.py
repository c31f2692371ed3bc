"""What schedulers share: the choice of the next documents, its fit into the budget, and which parts fit each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ragtune.core.interfaces import BaseAcquisition, BaseEstimator, BaseReranker, BaseScheduler
from ragtune.core.pool.columns import CANDIDATE, all_of
from ragtune.core.pool.items import SentBatch
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.pool.valuation import Belief
from ragtune.core.types import BUDGET_EXHAUSTED, STRATEGY_CLOSED, BatchProposal, RemainingBudgetView, StopRecord


def propose(
    doc_ids: Sequence[str],
    budget: RemainingBudgetView,
    strategy: str | None = None,
    diagnostics: dict[str, Any] | None = None,
) -> BatchProposal | StopRecord:
    """The longest prefix of ``doc_ids`` that the budget affords, or the reason why not even one document fits.

    Args:
        doc_ids: ids of the wanted documents, best first.
        strategy: name of the reranker; None takes the default one.
        diagnostics: facts for the trace.

    Examples:
        >>> from ragtune.core.policy.batching import propose
        >>> from ragtune.core.types import RemainingBudgetView
        >>> propose(["d1", "d2", "d3"], RemainingBudgetView(remaining_rerank_docs=2)).doc_ids
        ['d1', 'd2']
    """
    strategy = strategy or budget.strategies[0]
    if strategy in budget.closed:
        return StopRecord(reason=STRATEGY_CLOSED, source="scheduler", details={"strategy": strategy})
    if not doc_ids:
        return StopRecord(reason="nothing_chosen", source="scheduler", details={"strategy": strategy})
    wish = budget.affordable(doc_ids, strategy)
    if not wish:
        return StopRecord(
            reason=BUDGET_EXHAUSTED,
            source="scheduler",
            details={
                "why": "no unit of work fits into what is left",
                "strategy": strategy,
                "doc_id": doc_ids[0],
            },
        )
    cost = budget.price(wish, strategy)
    return BatchProposal(doc_ids=wish, strategy=strategy, expected_cost=cost, diagnostics=diagnostics)


def choose(pool: CandidatePool, count: int, acquisition: BaseAcquisition | None) -> list[str]:
    """The best eligible documents: ``count``, the batch limit, or half of a comparison that failed (rule F6)."""
    belief = pool.belief
    if pool.estimates.batch_limit is not None:
        count = min(count, pool.estimates.batch_limit)
    if pool.batches and _went_back(pool, pool.batches[-1]):
        count = min(count, max(1, len(pool.batches[-1].positions) // 2))
    if acquisition is None or belief is None:
        return pool.top_candidates(count)
    return [pool.doc_ids[i] for i in _one_by_one(pool, count, acquisition, belief)]


def _went_back(pool: CandidatePool, batch: SentBatch) -> bool:
    """Whether the batch brought no score, and its documents are candidates again."""
    return all_of(np.isnan(batch.scores)) and bool((pool.states[batch.positions] == CANDIDATE).any())


def _one_by_one(pool: CandidatePool, count: int, acquisition: BaseAcquisition, belief: Belief) -> list[int]:
    """Positions of the picks, each chosen as if those before it had been scored."""
    picks: list[int] = []
    left = pool.eligible
    for _ in range(min(count, len(left))):
        if picks:
            belief = belief.observing(picks[-1])
        picks.append(int(left[acquisition.utility(belief, pool)[left].argmax()]))
        left = left[left != picks[-1]]
    return picks


def objection(estimator: BaseEstimator, scheduler: BaseScheduler) -> str | None:
    """Why the estimator could not use the scores that the scheduler would pay for; None if it can."""
    if estimator.compares and not scheduler.sends_again:
        return (
            "the estimator learns from windows that it asks for, this scheduler sends others, and so the scores would "
            "be paid for and not used; take scheduler=windows"
        )
    return None


def compares_apart(reranker: BaseReranker, scheduler: BaseScheduler) -> bool:
    """Whether documents are compared in batches that share none, so that scores of two batches cannot be compared."""
    return reranker.facts.compares and not scheduler.sends_again
