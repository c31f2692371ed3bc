"""Windows for listwise rerankers."""

from __future__ import annotations

from ragtune.core.arguments import check_count
from ragtune.core.interfaces import BaseAcquisition
from ragtune.core.policy.batching import propose
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.types import BatchProposal, RemainingBudgetView, StopRecord
from ragtune.schedulers.greedy import BatchScheduler


class SlidingWindowScheduler(BatchScheduler):
    """The call schedule of listwise reranking: a full window first, then one call for every ``step`` new documents.

    A window is one call. SlideGAR (Rathee, MacAvaney and Anand, "Guiding Retrieval using LLM-based Listwise Rankers",
    ECIR 2025) goes down the list with the w - b best documents of a window carried into the next, and takes the b new
    ones by turns from the initial ranking and from the corpus graph's neighbour queue: give it ``estimator=gar``.
    RankGPT (Sun et al., EMNLP 2023) slides the same windows over a fixed list, from its end.

    Difference: there, a carried document is ranked again in every window that holds it, as ``estimator=sliding
    scheduler=windows`` does. Here no document is sent again, so a document is scored and charged once, by the first
    window that shows it: calls and new documents a call are the same, charged documents and tokens fewer, and two
    documents are ordered by the reranker's scale across windows, never by a direct comparison in a later one.

    The papers' symbols: w is ``window``, b ``step``, c ``budget.max_reranker_docs``; calls are limited by
    ``budget.max_reranker_calls``.
    """

    def __init__(self, window: int = 20, step: int = 10, acquisition: BaseAcquisition | None = None) -> None:
        self.window = check_count("scheduler.window", window, low=1)
        self.step = check_count("scheduler.step", step, low=1, high=self.window)
        super().__init__(self.step, acquisition)

    def select_batch(self, pool: CandidatePool, budget: RemainingBudgetView) -> BatchProposal | StopRecord:
        is_first = len(pool.eligible) == len(pool)  # or failed, and its documents are candidates again (rule F6)
        return propose(self.chosen(pool, self.window if is_first else self.step), budget)
