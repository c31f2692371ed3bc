"""Policies by name, the parts of ``conf/experiment`` in batches of the caller's size, on vectors of the candidates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ragtune.acquisitions.upper_confidence import UpperConfidenceAcquisition
from ragtune.core.arguments import check_choice, check_count, check_number
from ragtune.core.errors import ConfigError
from ragtune.core.interfaces import BaseEmbedder, BaseEstimator, BaseScheduler
from ragtune.core.policy.defaults import BATCH_SIZE, TRUST
from ragtune.core.pool.ordering import Ordering
from ragtune.embedders.candidates import CandidateVectors
from ragtune.estimators.baseline import BaselineEstimator
from ragtune.estimators.comparing.active_prp import ActivePRPEstimator
from ragtune.estimators.comparing.acurank import AcuRankEstimator
from ragtune.estimators.comparing.blitzrank import BlitzRankEstimator
from ragtune.estimators.comparing.jointrank import JointRankEstimator
from ragtune.estimators.comparing.knockout import KnockoutEstimator
from ragtune.estimators.comparing.plackett_luce import PlackettLuceEstimator
from ragtune.estimators.comparing.realm import REALMEstimator
from ragtune.estimators.comparing.setwise_insertion import SetwiseInsertionEstimator
from ragtune.estimators.comparing.sliding import SlidingEstimator
from ragtune.estimators.comparing.tdpart import TDPartEstimator
from ragtune.estimators.comparing.tourrank import TourRankEstimator
from ragtune.estimators.comparing.ts_setrank import TSSetRankEstimator
from ragtune.estimators.interpolation import InterpolationEstimator
from ragtune.estimators.posterior.uncertainty import UncertaintyEstimator
from ragtune.schedulers.gate import GateScheduler
from ragtune.schedulers.greedy import GreedyScheduler
from ragtune.schedulers.one_shot import OneShotScheduler
from ragtune.schedulers.settled import SettledScheduler
from ragtune.schedulers.windows import WindowsScheduler


@dataclass(frozen=True)
class Policy:
    """The parts of a policy: what values the candidates, what chooses the batches, and the order of the final list.

    Examples:
        >>> from ragtune.estimators.baseline import BaselineEstimator
        >>> from ragtune.facade.policies import Policy
        >>> from ragtune.schedulers.greedy import GreedyScheduler
        >>> Policy(BaselineEstimator(), GreedyScheduler(batch_size=5)).compares
        False
    """

    estimator: BaseEstimator
    scheduler: BaseScheduler
    ordering: Ordering = Ordering.POSTERIOR

    @property
    def compares(self) -> bool:
        """Whether documents are shown again beside others, so that a call is a comparison, and it ends by itself."""
        return self.scheduler.sends_again


def policy_named(
    name: str,
    batch_size: int | None = None,
    embedder: BaseEmbedder | None = None,
    trust: float | Callable[[], float] = TRUST,
) -> Policy:
    """The policy of that name.

    Those that choose by scores are ``uncertainty`` (the whole budget), ``settled`` and ``early_stop`` (stop once the
    top 10 is unlikely to change), ``gate`` (nothing where the first stage is sure of its top 10), and the baselines:
    ``fixed_depth`` (the first stage's best in one call) and ``interpolated_fixed_depth`` (the same documents, ranked by
    both scores). Those that compare choose windows of documents, a window a call, some of them again:
    ``plackett_luce``, ``sliding``, ``tdpart``, ``tourrank``, ``acurank``, ``blitzrank``, ``realm``, ``ts_setrank``,
    ``setwise_insertion``, ``jointrank``, ``knockout`` and ``active_prp``.

    Any reranker serves a policy that compares: of one that gives scores, they order each window. A reranker that
    compares serves a policy that chooses by scores as long as one call is all; beyond that a ranking warns.

    Args:
        name: one of the above.
        batch_size: documents a call; None for 5, or the window of the policy's paper. Fixed depth has no use for it.
        embedder: makes the vectors of candidates that bring none along; None for their terms.
        trust: in [0, 1], whose word counts where scores cannot tell: 0 the sources', 1 the reranker's; or a function
            that is asked for it once a request. Fixed depth and the policies that compare have no use for it.

    Raises:
        ConfigError: on an unknown name or a value out of range; ``tourrank``, ``knockout`` and ``active_prp``
            take no batch size.

    Examples:
        >>> from ragtune.facade.policies import policy_named
        >>> type(policy_named("fixed_depth", 10).scheduler).__name__
        'OneShotScheduler'
    """
    if not callable(trust):
        check_number("trust", trust, low=0.0, high=1.0)
    make = _POLICIES[check_choice("policy", name, _POLICIES)]
    return make(_Said(name, batch_size, embedder, trust))


@dataclass(frozen=True)
class _Said:
    """What a caller has said of a policy."""

    name: str
    batch_size: int | None
    embedder: BaseEmbedder | None
    trust: float | Callable[[], float]

    def vectors(self, _: object) -> CandidateVectors:
        return CandidateVectors(embedder=self.embedder)

    def posterior(self) -> UncertaintyEstimator:
        return UncertaintyEstimator(None, self.vectors, self.trust)

    def batches(self) -> dict[str, Any]:
        size = BATCH_SIZE if self.batch_size is None else self.batch_size
        return {"batch_size": size, "acquisition": UpperConfidenceAcquisition()}

    def window(self, *halves: str) -> dict[str, int]:
        """The size of windows, if said, and what is half of it by the papers' choice."""
        if self.batch_size is None:
            return {}
        size = check_count("batch_size", self.batch_size, low=2)
        return {"window": size, **dict.fromkeys(halves, size // 2)}

    def no_window(self) -> dict[str, int]:
        if self.batch_size is not None:
            raise ConfigError(f"batch_size={self.batch_size!r}: allowed is None, policy {self.name!r} has its own")
        return {}


def _compared(estimator: BaseEstimator) -> Policy:
    return Policy(estimator, WindowsScheduler())


_POLICIES: dict[str, Callable[[_Said], Policy]] = {
    "uncertainty": lambda said: Policy(said.posterior(), GreedyScheduler(**said.batches())),
    "settled": lambda said: Policy(said.posterior(), SettledScheduler(**said.batches())),
    "early_stop": lambda said: Policy(said.posterior(), SettledScheduler(threshold=0.4, **said.batches())),
    "gate": lambda said: Policy(said.posterior(), GateScheduler(GreedyScheduler(**said.batches()))),
    "fixed_depth": lambda said: Policy(BaselineEstimator(), OneShotScheduler(), Ordering.RERANKED_FIRST),
    "interpolated_fixed_depth": lambda said: Policy(InterpolationEstimator(), OneShotScheduler()),
    "plackett_luce": lambda said: _compared(PlackettLuceEstimator(None, said.vectors, **said.window())),
    "sliding": lambda said: _compared(SlidingEstimator(**said.window("step"))),
    "tdpart": lambda said: _compared(TDPartEstimator(**said.window("top_k"))),
    "tourrank": lambda said: _compared(TourRankEstimator(**said.no_window())),
    "acurank": lambda said: _compared(AcuRankEstimator(**said.window())),
    "blitzrank": lambda said: _compared(BlitzRankEstimator(**said.window())),
    "realm": lambda said: _compared(REALMEstimator(**said.window())),
    "ts_setrank": lambda said: _compared(TSSetRankEstimator(**said.window())),
    "setwise_insertion": lambda said: _compared(SetwiseInsertionEstimator(**said.window())),
    "jointrank": lambda said: _compared(JointRankEstimator(**said.window())),
    "knockout": lambda said: _compared(KnockoutEstimator(**said.no_window())),
    "active_prp": lambda said: _compared(ActivePRPEstimator(**said.no_window())),
}

POLICIES = tuple(_POLICIES)
"""Names of all policies."""
