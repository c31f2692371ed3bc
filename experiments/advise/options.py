"""The policies, batch sizes and budgets that advice chooses among."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ragtune.core.policy.defaults import TRUST
from ragtune.estimators.interpolation import WEIGHT

LIKE_THE_FACADE = "vectors@estimator.vectors=candidates"
"""What the facade and the server compare candidates by, so that what is advised here holds there."""

FIXED, INTERPOLATED = "fixed_depth", "interpolated_fixed_depth"
BATCHES = (5, 10, 20)
STOPPING_BATCHES = (5, 10)
TRUSTS = (0.1, 0.25, TRUST, 0.75, 0.9)
"""What is tried for the option ``trust`` of the estimator, with judgments."""

WEIGHTS = (0.0, 0.1, WEIGHT, 0.3, 0.5, 0.7)
"""The same for the weight of the first stage in interpolated fixed depth."""


@dataclass(frozen=True)
class PolicyOption:
    """A policy (of the facade and of ``conf/experiment``)."""

    policy: str
    batch: int | None  # documents a call; None for all in one
    label: str
    trust: float | None = None  # from first stage (0) to reranker (1); None of fixed depth
    weight: float | None = None  # of the first stage in interpolated fixed depth

    @property
    def name(self) -> str:
        return self.policy if self.batch is None else f"{self.policy}/{self.batch}"

    @property
    def blend(self) -> str:
        """What its final order weighs: a policy by name of which all with this blend have the order of full scores."""
        return self.policy if self.trust is None else "uncertainty"

    @property
    def overrides(self) -> list[str]:
        if self.batch is None:
            weight = [] if self.weight is None else [f"estimator.weight={self.weight:g}"]
            return [f"experiment={self.policy}", *weight]
        posterior = [] if self.trust is None else [LIKE_THE_FACADE, f"estimator.trust={self.trust:g}"]
        return [f"experiment={self.policy}", *posterior, f"scheduler.batch_size={self.batch}"]

    def fitted(self, trust: float, weight: float) -> PolicyOption:
        """The same with these values of the options that it has."""
        trusting = self if self.trust is None else replace(self, trust=trust)
        return trusting if self.weight is None else replace(trusting, weight=weight)

    @property
    def replayed(self) -> list[str]:
        """The same, so that one replay shows every depth of it: fixed depth is read in small batches."""
        if self.batch is not None:
            return self.overrides
        return [*self.overrides, "scheduler=greedy", "scheduler.batch_size=5"]


CANDIDATES = (
    PolicyOption(FIXED, None, "fixed depth"),
    PolicyOption(INTERPOLATED, None, "interpolated fixed depth", weight=WEIGHT),
    *(PolicyOption("uncertainty", size, f"uncertainty, batches of {size}", TRUST) for size in BATCHES),
    *(PolicyOption("settled", size, f"settled, batches of {size}", TRUST) for size in STOPPING_BATCHES),
    *(PolicyOption("early_stop", size, f"early stop, batches of {size}", TRUST) for size in STOPPING_BATCHES),
)
"""The replayed policies, the baselines first: all of them are in the library and the server."""

BASELINES = tuple(one.policy for one in CANDIDATES if one.batch is None)
"""What the advice has to beat with the same number of documents."""


def budgets_up_to(pool: int) -> list[int]:
    """Budgets in documents, ascending: 5, 10, 15, 20, 30, 40, 60, 80, 120, ... and the whole pool."""
    grid, size = [5, 10, 15], 20
    while size < pool:
        grid += [size, size * 3 // 2]
        size *= 2
    return [*(budget for budget in grid if budget < pool), pool]


def fitting(batch: int | None, budgets: Sequence[int]) -> list[int]:
    """Those of the budgets at which a batch ends, the last one (the whole pool) included."""
    return [b for b in budgets if not batch or b % batch == 0 or b == budgets[-1]]
