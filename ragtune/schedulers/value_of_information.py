"""Stops when the next score is not worth its price."""

from __future__ import annotations

from typing import Unpack

import numpy as np

from ragtune.core.arguments import check_count, check_number, check_positive
from ragtune.core.interfaces import BaseAcquisition
from ragtune.core.policy.batching import propose
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.types import BatchProposal, RemainingBudgetView, StopRecord
from ragtune.schedulers._batches import BatchOptions, BatchScheduler


class ValueOfInformationScheduler(BatchScheduler):
    """Greedy batches until no candidate's expected gain exceeds its price (Howard 1966; Frazier et al. 2009).

    The price of a document is ``price`` in units of the gain, plus, where ``usd_per_point`` says what a whole point of
    nDCG on one query is worth, what the reranker charges for the document in dollars divided by that: so a budget in
    money is a statement about what quality is worth.

    Where the estimates tell no document from another before the first score, the gain is not known. The first batch is
    sent then, so that there is something to judge by.

    Args:
        gain: the expected gain of one more score, in nDCG@k (acquisition ``expected_gain``).
        price: expected gain in nDCG@k that a document must bring, >= 0.
        usd_per_point: dollars that raising one query's nDCG@k from 0 to 1 is worth, > 0; None to ignore money.
        min_docs: documents reranked before stopping is considered.
        batch_size, acquisition, diverse: see :class:`ragtune.schedulers._batches.BatchScheduler`.

    Raises:
        ConfigError: on an argument out of range.
    """

    reads_budget = False

    def __init__(
        self,
        gain: BaseAcquisition,
        price: float = 0.005,
        usd_per_point: float | None = None,
        min_docs: int = 0,
        **batches: Unpack[BatchOptions],
    ) -> None:
        if usd_per_point is not None:
            check_positive("scheduler.usd_per_point", usd_per_point)
        super().__init__(**batches)
        self.gain = gain
        self.price = check_number("scheduler.price", price, low=0.0)
        self.usd_per_point = usd_per_point
        self.min_docs = check_count("scheduler.min_docs", min_docs)

    def select_batch(self, pool: CandidatePool, budget: RemainingBudgetView) -> BatchProposal | StopRecord:
        belief, ranked = pool.belief_or_empirical(), pool.ranked
        if not pool.batches and len(ranked) > 1 and np.ptp(belief.key[ranked]) == 0.0:
            return propose(self.chosen(pool), budget, diagnostics={"expected_gain": None})
        gains = self.gain.utility(belief, pool)[pool.eligible]
        best = int(gains.argmax())
        expected, price = float(gains[best]), self._price(pool.doc_ids[pool.eligible[best]], budget)
        details = {"expected_gain": round(expected, 9), "price": round(price, 9)}
        if expected <= price and len(pool.reranked) >= self.min_docs:
            return StopRecord(reason="gain_under_price", source="scheduler", details=details)
        return propose(self.chosen(pool), budget, diagnostics=details)

    def _price(self, doc_id: str, budget: RemainingBudgetView) -> float:
        if self.usd_per_point is None:
            return self.price
        return self.price + budget.price([doc_id], budget.strategies[0]).usd / self.usd_per_point
