"""Policies by name: how documents are chosen and when to stop. They are the parts of ``conf/experiment``,
in batches of the caller's size, on vectors of the candidates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ragtune.acquisitions.upper_confidence import UpperConfidenceAcquisition
from ragtune.core.arguments import check_choice, check_number
from ragtune.core.interfaces import BaseEmbedder, BaseEstimator, BaseScheduler
from ragtune.core.pool.ordering import Ordering
from ragtune.embedders.candidates import CandidateVectors
from ragtune.estimators.baseline import BaselineEstimator
from ragtune.estimators.uncertainty import UncertaintyEstimator
from ragtune.schedulers._batches import BatchOptions
from ragtune.schedulers.early_stop import EarlyStopScheduler
from ragtune.schedulers.greedy import GreedyScheduler
from ragtune.schedulers.one_shot import OneShotScheduler
from ragtune.schedulers.settled import SettledScheduler

TRUST = 0.5
"""Whose word counts where scores cannot tell, unless a caller says so: halfway between the sources and the reranker."""


@dataclass(frozen=True)
class Policy:
    """The parts of a policy.

    Attributes:
        estimator: values the candidates.
        scheduler: chooses the batches, and when to stop.
        ordering: order of the final list.
    """

    estimator: BaseEstimator
    scheduler: BaseScheduler
    ordering: Ordering = Ordering.POSTERIOR


def policy_named(name: str, batch_size: int, embedder: BaseEmbedder | None, trust: float = TRUST) -> Policy:
    """The policy of that name.

    Args:
        name: ``uncertainty`` (the whole budget), ``settled`` or ``early_stop`` (stop once the top 10 is unlikely to
            change), or ``fixed_depth`` (the first stage's best in one call, the incumbent).
        batch_size: documents a call.
        embedder: makes the vectors of candidates that bring none along; None for their terms.
        trust: in [0, 1], whose word counts where scores cannot tell: 0 the sources', 1 the reranker's. Fixed depth has
            no use for it.

    Raises:
        ConfigError: on an unknown name, a bad batch size or trust.
    """
    check_number("trust", trust, low=0.0, high=1.0)
    return _POLICIES[check_choice("policy", name, _POLICIES)](batch_size, _posterior(embedder, trust))


def _posterior(embedder: BaseEmbedder | None, trust: float) -> UncertaintyEstimator:
    return UncertaintyEstimator(None, lambda _: CandidateVectors(embedder=embedder), trust)


def _options(batch_size: int) -> BatchOptions:
    return {"batch_size": batch_size, "acquisition": UpperConfidenceAcquisition()}


_POLICIES: dict[str, Callable[[int, UncertaintyEstimator], Policy]] = {
    "uncertainty": lambda size, posterior: Policy(posterior, GreedyScheduler(**_options(size))),
    "settled": lambda size, posterior: Policy(posterior, SettledScheduler(**_options(size))),
    "early_stop": lambda size, posterior: Policy(posterior, EarlyStopScheduler(**_options(size))),
    "fixed_depth": lambda size, posterior: Policy(BaselineEstimator(), OneShotScheduler(), Ordering.RERANKED_FIRST),
}
