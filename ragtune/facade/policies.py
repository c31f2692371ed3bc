"""Policies by name, the parts of ``conf/experiment`` in batches of the caller's size, on vectors of the candidates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

from ragtune.acquisitions.upper_confidence import UpperConfidenceAcquisition
from ragtune.core.arguments import check_choice, check_count, check_number
from ragtune.core.errors import ConfigError
from ragtune.core.interfaces import BaseEmbedder, BaseEstimator, BaseScheduler
from ragtune.core.policy.defaults import BATCH_SIZE, TRUST
from ragtune.core.pool.ordering import Ordering
from ragtune.embedders.candidates import CandidateVectors
from ragtune.estimators.baseline import BaselineEstimator
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
            that is asked for it once a request. Baselines and policies that compare take the default only.

    Raises:
        ConfigError: on an unknown name, a value out of range, or a trust that the policy has no use for;
            ``tourrank``, ``knockout`` and ``active_prp`` take no batch size.

    Examples:
        >>> from ragtune.facade.policies import policy_named
        >>> type(policy_named("fixed_depth", 10).scheduler).__name__
        'OneShotScheduler'
    """
    if not callable(trust):
        check_number("trust", trust, low=0.0, high=1.0)
    if check_choice("policy", name, POLICIES) not in _SCORING and trust != TRUST:
        raise ConfigError(f"policy={name!r} takes trust={TRUST} only; another needs {', '.join(_SCORING)}")
    if name in _BASELINES:
        return _BASELINES[name]()

    def vectors(_: object) -> CandidateVectors:
        return CandidateVectors(embedder=embedder)

    if name in _SCORING:
        size = BATCH_SIZE if batch_size is None else batch_size
        batches = _SCORING[name](batch_size=size, acquisition=UpperConfidenceAcquisition())
        return Policy(UncertaintyEstimator(None, vectors, trust), batches)
    kind, halves = _COMPARING[name]
    options: dict[str, Any] = {"corpus": None, "vectors": vectors} if name == "plackett_luce" else {}
    if batch_size is not None:
        if halves is None:
            raise ConfigError(f"batch_size={batch_size!r}: allowed is None, policy {name!r} has its own")
        size = check_count("batch_size", batch_size, low=2)
        options |= {"window": size, **dict.fromkeys(halves, size // 2)}
    estimator = getattr(import_module(f"ragtune.estimators.comparing.{name}"), kind)(**options)
    return Policy(estimator, WindowsScheduler())


_BASELINES: dict[str, Callable[[], Policy]] = {
    "fixed_depth": lambda: Policy(BaselineEstimator(), OneShotScheduler(), Ordering.RERANKED_FIRST),
    "interpolated_fixed_depth": lambda: Policy(InterpolationEstimator(), OneShotScheduler()),
}

_SCORING: dict[str, Callable[..., BaseScheduler]] = {
    "uncertainty": GreedyScheduler,
    "settled": SettledScheduler,
    "early_stop": partial(SettledScheduler, threshold=0.4),
    "gate": lambda **batches: GateScheduler(GreedyScheduler(**batches)),
}

_COMPARING: dict[str, tuple[str, tuple[str, ...] | None]] = {
    "plackett_luce": ("PlackettLuceEstimator", ()),
    "sliding": ("SlidingEstimator", ("step",)),
    "tdpart": ("TDPartEstimator", ("top_k",)),
    "tourrank": ("TourRankEstimator", None),
    "acurank": ("AcuRankEstimator", ()),
    "blitzrank": ("BlitzRankEstimator", ()),
    "realm": ("REALMEstimator", ()),
    "ts_setrank": ("TSSetRankEstimator", ()),
    "setwise_insertion": ("SetwiseInsertionEstimator", ()),
    "jointrank": ("JointRankEstimator", ()),
    "knockout": ("KnockoutEstimator", None),
    "active_prp": ("ActivePRPEstimator", None),
}
"""Estimators, imported with their policy; and what is half of a window by the papers, None without another window."""

POLICIES = (*_SCORING, *_BASELINES, *_COMPARING)
"""Names of all policies."""
