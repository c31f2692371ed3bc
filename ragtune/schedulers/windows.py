"""The windows that an estimator asks for."""

from __future__ import annotations

from ragtune.core.arguments import check_count
from ragtune.core.interfaces import BaseScheduler
from ragtune.core.policy.batching import propose
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.types import BUDGET_EXHAUSTED, BatchProposal, RemainingBudgetView, StopRecord


class WindowsScheduler(BaseScheduler):
    """Sends the window that the estimator wants compared next, one window a call, documents that were compared before
    included; it stops when the estimator has nothing left to ask. What is left of the budget may cut a window short,
    but not to a single document, which would be compared with nothing.

    An estimator without such a wish gets windows of its best candidates, each once.
    """

    sends_again = True

    def __init__(self, window: int = 20) -> None:
        self.window = check_count("scheduler.window", window, low=1)

    def select_batch(self, pool: CandidatePool, budget: RemainingBudgetView) -> BatchProposal | StopRecord:
        wanted = pool.estimates.window
        if wanted is None:
            return propose(pool.top_candidates(self.window), budget)
        if not wanted and budget.strategies[0] not in budget.closed:  # else it has ended for want of answers
            return StopRecord(reason="nothing_to_compare", source="scheduler", details={"calls": len(pool.batches)})
        proposal = propose([pool.doc_ids[position] for position in wanted], budget)
        if isinstance(proposal, BatchProposal) and len(proposal.doc_ids) < min(2, len(wanted)):
            details = {"why": "no two documents fit into what is left", "strategy": proposal.strategy}
            return StopRecord(reason=BUDGET_EXHAUSTED, source="scheduler", details=details)
        return proposal
