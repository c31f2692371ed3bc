"""What several sources agree on and the reranker does not explain counts in the final order; nothing else does."""

from __future__ import annotations

import numpy as np
import pytest

from ragtune.estimators.posterior._corroboration import Corroboration
from ragtune.estimators.posterior._first_stage import FirstStageEvidence

_N = 4000


def _views(*validities: float) -> np.ndarray:
    """Views of one relevance that err independently, each correlated with it as its validity says; shape (n, S)."""
    rng = np.random.default_rng(5)
    relevance = rng.normal(size=_N)
    return np.column_stack([v * relevance + np.sqrt(1.0 - v * v) * rng.normal(size=_N) for v in validities])


def _of(columns: np.ndarray, *echoes: str) -> Corroboration:
    names = tuple(f"s{j}" for j in range(columns.shape[1]))
    return Corroboration(FirstStageEvidence(columns, np.ones(columns.shape[1]), names, echoes))


@pytest.mark.parametrize("validities", [(0.5, 0.8), (0.5, 0.8, 0.7)])
def test_a_reranker_that_sees_all_of_relevance_leaves_no_agreement_unexplained(validities: tuple[float, ...]) -> None:
    views = _views(*validities, 1.0)
    unexplained = _of(views[:, :-1]).unexplained(views[:, -1], np.zeros(_N))
    assert unexplained == pytest.approx(0.0, abs=0.03)


def test_what_it_does_not_see_is_the_share_of_relevance_that_it_misses() -> None:
    """The one-factor model: rho_12 - rho_1r rho_2r = lambda_1 lambda_2 (1 - lambda_r^2).

    That is, where the sources have enough in common with the reranker to be believed: here, from a validity of .53.
    """
    for validity in (0.55, 0.7, 0.9):
        views = _views(0.7, 0.8, validity)
        unexplained = _of(views[:, :2]).unexplained(views[:, 2], np.zeros(_N))
        assert unexplained == pytest.approx(0.7 * 0.8 * (1.0 - validity**2), abs=0.05)


def test_the_worse_the_reranker_the_more_the_sources_count_and_the_more_scores_the_surer() -> None:
    good, bad = _views(0.7, 0.8, 1.0), _views(0.7, 0.8, 0.55)
    weight = {
        (name, docs): _of(views[:, :2]).weight(views[:, 2], np.zeros(_N), docs)
        for name, views in (("good", good), ("bad", bad))
        for docs in (0, 10, 100)
    }
    assert weight["good", 0] == weight["bad", 0]
    assert weight["good", 100] < weight["good", 0]
    assert weight["bad", 0] < weight["bad", 10] < weight["bad", 100]


def test_what_is_known_to_be_an_echo_corroborates_nothing_and_takes_nothing_from_what_others_corroborate() -> None:
    views, scored = _views(0.7, 0.8, 0.6, 0.55), np.arange(_N) < 50
    reranker, none = views[:, 3], np.zeros(_N)
    alone, two, three = _of(views[:, :2], "s1"), _of(views[:, :2]), _of(views[:, :3], "s2")
    assert alone.weight(reranker, none, 100) == _of(views[:, :1]).weight(reranker, none, 100)
    assert alone.margins(scored, reranker) == {}
    assert three.weight(reranker, none, 100) == two.weight(reranker, none, 100)
    assert three.margins(scored, reranker) == two.margins(scored, reranker)


@pytest.mark.parametrize("likeness", [1.0, 0.95])
def test_sources_that_repeat_each_other_are_no_witnesses(likeness: float) -> None:
    """They agree far more with each other than with a reranker; what they share is their words, not relevance."""
    source, reranker, noise = _views(0.5, 0.8, 0.0).T
    again = likeness * source + np.sqrt(1.0 - likeness**2) * noise
    unexplained = _of(np.column_stack([source, again])).unexplained(reranker, np.zeros(_N))
    assert 0.0 <= unexplained < 0.1


@pytest.mark.parametrize("other", ["copy", "random"])
def test_a_source_that_brings_nothing_takes_nothing_from_what_two_others_have_found(other: str) -> None:
    views = _views(0.7, 0.8, 0.6, 0.0)
    further = {"copy": views[:, 0], "random": views[:, 3]}[other]
    alone = _of(views[:, :2]).unexplained(views[:, 2], np.zeros(_N))
    beside = _of(np.column_stack([views[:, :2], further])).unexplained(views[:, 2], np.zeros(_N))
    assert beside == pytest.approx(alone, abs=0.07)


def test_a_single_source_has_no_witness() -> None:
    corroboration = _of(_views(0.7))
    anything = np.random.default_rng(0).normal(size=_N)
    assert corroboration.unexplained(anything, np.zeros(_N)) is None
    assert corroboration.weight(anything, np.zeros(_N), 0) == corroboration.weight(-anything, np.zeros(_N), 100) > 0.0


def test_sources_and_scores_without_spread_explain_nothing() -> None:
    flat = _of(np.ones((5, 2)))
    assert np.isfinite(flat.weight(np.ones(5), np.zeros(5), 3))


def test_a_margin_is_above_0_for_the_sources_that_are_better_than_the_reranker_and_for_no_other() -> None:
    views = _views(0.4, 0.8, 0.6)
    margins = _of(views[:, :2]).margins(np.ones(_N, dtype=bool), views[:, 2])
    assert margins["s1"] == pytest.approx(0.4 * (0.8 - 0.6), abs=0.05)
    assert margins["s0"] == pytest.approx(0.8 * (0.4 - 0.6), abs=0.05)


def test_margins_need_a_witness_and_documents_that_differ() -> None:
    views = _views(0.4, 0.8, 0.6)
    every = np.ones(_N, dtype=bool)
    assert _of(views[:, :1]).margins(every, views[:, 2]) == {}
    assert _of(views[:, :2]).margins(np.arange(_N) < 2, views[:, 2]) == {}
    assert _of(views[:, :2]).margins(every, np.ones(_N)) == {}
