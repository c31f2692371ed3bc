"""The best choice of ranks: what it finds on pools small enough to try every choice, and what counts as known."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from experiments.study.protocol.ceilings import FIRST, Pools, best_ranks, ceiling


def _pools(queries: int = 12, n: int = 11, seed: int = 0) -> Pools:
    rng = np.random.default_rng(seed)
    gains = rng.random((queries, n)) * (rng.random((queries, n)) < 0.3)
    scores = gains + 0.3 * rng.standard_normal((queries, n))
    return Pools(scores, gains, np.repeat(np.eye(n, dtype=np.float32)[None], queries, axis=0))


def _mask(n: int, ranks: tuple[int, ...]) -> np.ndarray:
    return np.isin(np.arange(n), ranks)


@pytest.mark.parametrize("weight", [1.0, 0.6])
def test_of_all_choices_of_ranks_the_search_finds_the_best(weight: float) -> None:
    pools = _pools()
    tried = [pools.values(_mask(11, ranks), weight, FIRST).mean() for ranks in combinations(range(11), 3)]
    assert pools.values(best_ranks(pools, 3, weight, FIRST), weight, FIRST).mean() == pytest.approx(max(tried))


def test_scored_documents_lead_in_the_order_of_their_scores() -> None:
    pools = Pools(np.zeros((1, 12)), np.zeros((1, 12)), np.eye(12, dtype=np.float32)[None])
    pools.scores[0, [10, 11]] = 1.0, 2.0
    pools.gains[0, 11], pools.gains[0, 0] = 1.0, 0.5
    assert pools.values(_mask(12, (10, 11)))[0] == pytest.approx(1.0 + 0.5 / 2.0)


def test_a_scored_document_makes_its_copies_known() -> None:
    pools = Pools(np.zeros((1, 12)), np.zeros((1, 12)), np.eye(12, dtype=np.float32)[None])
    pools.scores[0, 5:7], pools.gains[0, 6] = 3.0, 1.0
    pools.copies[0, 5, 6] = pools.copies[0, 6, 5] = 1.0
    assert pools.values(_mask(12, (5,)))[0] == pytest.approx(1.0 / np.log2(3))


def test_a_pool_that_has_ended_takes_no_place_from_documents() -> None:
    pools = Pools(np.full((1, 12), -2.0), np.zeros((1, 12)), np.eye(12, dtype=np.float32)[None])
    pools.scores[0, 10:], pools.gains[0, 9] = -np.inf, 1.0
    everything = pools.values(np.ones(12, dtype=bool), unseen=0.0)
    assert everything[0] == pytest.approx(1.0 / np.log2(11))


def test_what_is_chosen_with_a_query_s_own_judgments_is_at_least_what_others_choose() -> None:
    found = ceiling(_pools(queries=20), 2)
    assert found.scored.sum() == 2
    assert found.values.mean() >= found.elsewhere.mean()
