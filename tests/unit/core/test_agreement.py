"""Agreement of rankings without judgments."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtune.core.statistics import RankPlaces, gain_kept, overlap, rank_biased_overlap

ABC = [*range(10)]


@pytest.mark.parametrize(
    ("one", "other", "k", "p", "expected"),
    [
        (ABC, [1, 0, 2, 3, 4, 5, 6, 97, 98, 99], 10, 0.9, 0.76822920405),
        (ABC, [*range(10, 20)], 10, 0.9, 0.0),
        (ABC, ABC[::-1], 10, 0.9, 0.5116075656428573),
        ([0, 1, 2, 3, 4], [0, 1, 97, 98, 99], 3, 0.8, 0.7866666666666666),
    ],
)
def test_rank_biased_overlap_is_that_of_the_package_rbo(
    one: list[int], other: list[int], k: int, p: float, expected: float
) -> None:
    """Figures of PyPI's rbo 0.1.3, ``RankingSimilarity(one[:k], other[:k]).rbo_ext(p)``."""
    assert rank_biased_overlap(one, other, k, p) == pytest.approx(expected)


@given(st.permutations(range(12)), st.permutations(range(12)), st.lists(st.floats(0, 1), min_size=12, max_size=12))
def test_agreement_is_a_share_and_whole_with_itself(one: list[int], other: list[int], scores: list[float]) -> None:
    gains = dict(enumerate(scores))
    for figure in (overlap(one, other), rank_biased_overlap(one, other), gain_kept(one, gains)):
        assert 0.0 <= figure <= 1.0
    assert overlap(one, one) == rank_biased_overlap(one, one) == 1.0
    assert gain_kept(sorted(gains, key=lambda document: -gains[document]), gains) == 1.0
    assert overlap(one, other) == overlap(other, one)


def test_overlap_counts_what_is_in_both_tops() -> None:
    assert overlap([1, 2, 3], [3, 4, 1], k=2) == 0.0
    assert overlap([1, 2, 3], [3, 4, 1], k=3) == pytest.approx(2 / 3)
    assert overlap([], []) == 1.0


def test_kendalls_tau_is_scipys() -> None:
    from scipy.stats import kendalltau

    def tau(one: list[int], other: list[int], k: int = 10) -> float:
        return float(RankPlaces.of([(one, other)], k).kendall_tau()[0])

    one, other = [3, 9, 0, 1, 8, 2, 5, 4, 7, 6], [*range(10)]
    assert tau(one, other) == pytest.approx(kendalltau([one.index(i) for i in other], other).statistic)
    assert tau(one, other, k=4) == pytest.approx(kendalltau([one.index(i) for i in range(4)], range(4)).statistic)
    assert (tau(other, other), tau(other[::-1], other), tau([1], [1])) == (1.0, -1.0, 1.0)


def test_the_gain_kept_is_ndcg_by_the_given_gains() -> None:
    gains = {0: 0.0, 1: 0.5, 2: 1.0}
    ideal = 1.0 + 0.5 / math.log2(3)
    assert gain_kept([0, 2, 1], gains, k=2) == pytest.approx((1.0 / math.log2(3)) / ideal)
    assert gain_kept([0, 1], {0: 0.0, 1: 0.0}) == 1.0
