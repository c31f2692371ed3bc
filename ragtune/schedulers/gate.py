"""Spends nothing where the first stage is sure of its top."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from ragtune.core.arguments import check_count, check_number
from ragtune.core.arrays import FloatArray
from ragtune.core.interfaces import BaseScheduler
from ragtune.core.policy.scaling import scores_by_stage
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.types import BatchProposal, RemainingBudgetView, StopRecord


class GateScheduler(BaseScheduler):
    """Margin gate: decides before the first batch whether to rerank at all; another scheduler does the rest.

    With several sources the gate closes where their top k agree: the mean share of common documents over all pairs of
    sources is at least ``agreement``. Documents that tie with rank k + 1 of a source are not in its top k. With one
    source it closes where the leaders stand out: the standard deviation of the k best scores is at least ``margin``
    times what it would be if the pool's scores fell evenly from the best to the worst. This is NQC (Shtok et al., TOIS
    2012) in another unit: a shift or a factor of the scores changes nothing. A pool of at most k documents is always
    open.

    RAGtune's own; no paper has it in this form. The defaults close for about one query in five of pools of 100. Every
    stop has its statistic in ``details``, so past requests give the thresholds for a wanted share.
    """

    def __init__(self, scheduler: BaseScheduler, k: int = 10, margin: float = 7.0, agreement: float = 0.7) -> None:
        self.scheduler = scheduler
        self.sends_again = scheduler.sends_again
        self.k = check_count("scheduler.k", k, low=2)
        self.margin = check_number("scheduler.margin", margin, low=0.0)
        self.agreement = check_number("scheduler.agreement", agreement, low=0.0, high=1.0)

    def select_batch(self, pool: CandidatePool, budget: RemainingBudgetView) -> BatchProposal | StopRecord | None:
        if not pool.batches and len(pool) > self.k:
            tops = [_top(scores, self.k) for scores in scores_by_stage(pool.entries).values()]
            if len(tops) > 1:
                shared = np.mean([len(one & other) / self.k for one, other in combinations(tops, 2)])
                name, value, limit = "agreement", float(shared), self.agreement
            else:
                even = np.linspace(0.0, 1.0, len(pool))[-self.k :].std()
                best = np.sort(pool.roster.first_stage_scores)[-self.k :]
                name, value, limit = "margin", float(best.std() / even), self.margin
            if value >= limit:
                details = {name: round(value, 6), "threshold": limit, "k": self.k}
                return StopRecord(reason="gate_closed", source="scheduler", details=details)
        return self.scheduler.select_batch(pool, budget)


def _top(scores: FloatArray, k: int) -> set[int]:
    """Positions of the k best documents of a first stage, those of its rewrites included."""
    outside = np.sort(scores[~np.isnan(scores)])[::-1][k : k + 1]
    return set(np.flatnonzero(scores > outside if len(outside) else ~np.isnan(scores)).tolist())
