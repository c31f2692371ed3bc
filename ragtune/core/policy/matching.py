"""Which parts of a policy fit each other."""

from __future__ import annotations

from ragtune.core.interfaces import BaseEstimator, BaseReranker, BaseScheduler


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
    return reranker.compares and not scheduler.sends_again
