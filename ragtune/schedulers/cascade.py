"""Spends a mixed budget over several rerankers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ragtune.core.arguments import check_count, check_number
from ragtune.core.errors import ConfigError
from ragtune.core.interfaces import BaseAcquisition
from ragtune.core.policy.batching import propose
from ragtune.core.policy.scaling import tail
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.types import BatchProposal, RemainingBudgetView, StopRecord
from ragtune.schedulers.greedy import BatchScheduler, below_top


class CascadeScheduler(BatchScheduler):
    """The default strategy explores; documents likely to belong to the top k go to a stronger one
    (rule S5; cascades: Wang, Lin and Metzler, SIGIR 2011).

    A document is reranked once, by one strategy. So each batch is chosen as in the greedy scheduler, and the strategy
    follows from what is believed of it: if its documents' mean probability to belong to the top k reaches
    ``escalate_above``, the first of ``limits`` that has documents left and that the budget affords takes it, else the
    default strategy. Scales are calibrated by the estimator, from documents that are alike. Where the default strategy
    is closed because it failed (rule F3), the stronger ones take every batch, as far as their limits go.
    """

    def __init__(
        self,
        limits: Mapping[str, int],
        k: int = 10,
        escalate_above: float = 0.5,
        min_docs: int = 4,
        batch_size: int = 2,
        acquisition: BaseAcquisition | None = None,
    ) -> None:
        super().__init__(batch_size, acquisition)
        if not isinstance(limits, Mapping):
            raise ConfigError(f"scheduler.limits={limits!r}: allowed is documents by strategy, e.g. {{llm: 10}}")
        self.limits = {name: check_count(f"scheduler.limits.{name}", limit) for name, limit in limits.items()}
        self.k = check_count("scheduler.k", k, low=1)
        self.escalate_above = check_number("scheduler.escalate_above", escalate_above, low=0.0, high=1.0)
        self.min_docs = check_count("scheduler.min_docs", min_docs)

    def select_batch(self, pool: CandidatePool, budget: RemainingBudgetView) -> BatchProposal | StopRecord:
        unknown = [strategy for strategy in self.limits if strategy not in budget.strategies]
        if unknown:
            raise ConfigError(
                f"scheduler.limits names {', '.join(unknown)}: registered strategies are {', '.join(budget.strategies)}"
            )
        batch = self.chosen(pool)
        promise = float(tail(below_top(pool, pool.positions(batch), self.k)).mean())
        diagnostics = {"top_k_probability": round(promise, 6)}
        takes_over = budget.strategies[0] in budget.closed
        if takes_over or (promise >= self.escalate_above and len(pool.reranked) >= self.min_docs):
            for strategy, left in self._left(pool).items():
                proposal = propose(batch[: max(0, left)], budget, strategy, diagnostics)
                if isinstance(proposal, BatchProposal):
                    return proposal
        return propose(batch, budget, diagnostics=diagnostics)

    def _left(self, pool: CandidatePool) -> dict[str, int]:
        sent = Counter(batch.strategy for batch in pool.batches for _ in batch.positions)
        return {strategy: limit - sent[strategy] for strategy, limit in self.limits.items()}
