"""What schedulers share: fitting a wish to the budget that they can see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragtune.core.errors import ConfigError
from ragtune.core.types import BatchProposal, RemainingBudgetView, StopRecord


def propose(
    doc_ids: Sequence[str],
    budget: RemainingBudgetView,
    strategy: str | None = None,
    diagnostics: Mapping[str, Any] | None = None,
) -> BatchProposal | StopRecord:
    """The longest prefix of ``doc_ids`` that the budget affords, or the reason why not even one document fits.

    Args:
        doc_ids: best first.
        strategy: None takes the default strategy.
        diagnostics: facts for the trace.
    """
    strategy = strategy or budget.strategies[0]
    wish = list(doc_ids[: budget.remaining_rerank_docs])
    cost = budget.price(wish, strategy)
    if wish and not budget.affords(cost):
        wish = wish[: _affordable(wish, budget, strategy)]
        cost = budget.price(wish, strategy)
    if not wish:
        return StopRecord(
            reason="budget_exhausted",
            source="scheduler",
            details={"why": "no unit of work fits into what is left", "strategy": strategy},
        )
    return BatchProposal.model_construct(doc_ids=wish, strategy=strategy, expected_cost=cost, diagnostics=diagnostics)


def _affordable(wish: Sequence[str], budget: RemainingBudgetView, strategy: str) -> int:
    """Length of the longest affordable prefix, by bisection: prices grow with the batch."""
    low, high = 0, len(wish)
    while low < high:
        middle = (low + high + 1) // 2
        if budget.affords(budget.price(wish[:middle], strategy)):
            low = middle
        else:
            high = middle - 1
    return low


def require_batch_size(batch_size: int) -> int:
    """``batch_size`` if it is a positive integer.

    Raises:
        ConfigError: naming the value.
    """
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
        raise ConfigError(f"scheduler.batch_size={batch_size!r}: allowed is an integer >= 1")
    return batch_size
