from __future__ import annotations

import numpy as np
import pytest

from ragtune.acquisitions.thompson import ThompsonAcquisition
from ragtune.acquisitions.upper_confidence import UpperConfidenceAcquisition
from ragtune.core.policy.batching import choose
from ragtune.core.policy.scaling import top_k_threshold
from ragtune.core.pool.items import PoolItem
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.pool.valuation import EmpiricalBelief
from ragtune.testing import KnownBelief


def _pool(n: int) -> CandidatePool:
    return CandidatePool(PoolItem(doc_id=f"d{i}", initial_rank=i, sources={"s": float(-i)}) for i in range(n))


def test_thompson_draws_the_posterior_by_its_seed() -> None:
    belief, pool = KnownBelief([1.0] * 200, np.eye(200) * 4.0), _pool(200)
    draw = ThompsonAcquisition(seed=1).utility(belief, pool)
    assert draw.mean() == pytest.approx(1.0, abs=0.5)
    assert draw.std() == pytest.approx(2.0, abs=0.4)
    assert not np.array_equal(draw, ThompsonAcquisition(seed=2).utility(belief, pool))


def test_a_diverse_batch_is_not_five_near_duplicates() -> None:
    twins = 5
    covariance = np.eye(10)
    covariance[:twins, :twins] = 0.999
    np.fill_diagonal(covariance, 1.0)
    pool = _pool(10)
    belief = KnownBelief([0.1] * twins + [0.0] * 5, covariance, noise=0.01)
    pool.apply_priorities(pool.valuation(np.full(10, 0.5), belief=belief))
    utility = UpperConfidenceAcquisition().utility(belief, pool)
    assert set(np.argsort(-utility)[:twins]) == set(range(twins))
    batch = choose(pool, twins, UpperConfidenceAcquisition())
    assert sum(pool.roster.index[doc_id] < twins for doc_id in batch) == 1


def test_without_a_belief_the_priorities_decide() -> None:
    pool = _pool(4)
    pool.apply_priorities({"d0": 0.1, "d1": 0.9, "d2": 0.5, "d3": 0.9})
    assert choose(pool, 3, UpperConfidenceAcquisition()) == ["d1", "d3", "d2"]


def test_the_empirical_belief_errs_as_the_estimator_has_erred() -> None:
    priorities, scores = np.array([0.9, 0.8, 0.7, 0.6]), np.array([0.1, 0.2, np.nan, np.nan])
    belief = EmpiricalBelief(priorities, scores)
    right = EmpiricalBelief(priorities, np.array([0.9, 0.8, np.nan, np.nan]))
    assert belief.variance[2] > right.variance[2] > 0
    assert belief.variance[0] == 0
    np.testing.assert_array_equal(belief.mean, [0.1, 0.2, 0.7, 0.6])
    assert belief.observing(2).variance[2] == 0


def test_the_bar_lies_between_ranks_k_and_k_plus_1() -> None:
    assert top_k_threshold(np.array([5.0, 1.0, 3.0, 2.0]), 2) == 2.5
    assert top_k_threshold(np.array([5.0, 1.0, 3.0]), 3) == 3.0
    assert top_k_threshold(np.array([]), 3) == 0.0
