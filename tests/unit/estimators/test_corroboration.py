"""What several sources agree on and the reranker does not explain counts in the final order; nothing else does."""

from __future__ import annotations

import numpy as np
import pytest

from ragtune.estimators._corroboration import Corroboration

_N = 4000


def _views(*validities: float) -> np.ndarray:
    """Views of one relevance that err independently, each correlated with it as its validity says; shape (n, S)."""
    rng = np.random.default_rng(5)
    relevance = rng.normal(size=_N)
    return np.column_stack([v * relevance + np.sqrt(1.0 - v * v) * rng.normal(size=_N) for v in validities])


@pytest.mark.parametrize("validities", [(0.5, 0.8), (0.5, 0.8, 0.7)])
def test_a_reranker_that_sees_all_of_relevance_leaves_no_agreement_unexplained(validities: tuple[float, ...]) -> None:
    views = _views(*validities, 1.0)
    unexplained = Corroboration(views[:, :-1]).unexplained(views[:, -1], np.zeros(_N))
    assert unexplained == pytest.approx(0.0, abs=0.03)


def test_what_it_does_not_see_is_the_share_of_relevance_that_it_misses() -> None:
    """The one-factor model: rho_12 - rho_1r rho_2r = lambda_1 lambda_2 (1 - lambda_r^2)."""
    for validity in (0.0, 0.4, 0.9):
        views = _views(0.7, 0.8, validity)
        unexplained = Corroboration(views[:, :2]).unexplained(views[:, 2], np.zeros(_N))
        assert unexplained == pytest.approx(0.7 * 0.8 * (1.0 - validity**2), abs=0.05)


def test_the_worse_the_reranker_the_more_the_sources_count_and_the_more_scores_the_surer() -> None:
    good, bad = _views(0.7, 0.8, 1.0), _views(0.7, 0.8, 0.2)
    weight = {
        (name, docs): Corroboration(views[:, :2]).weight(views[:, 2], np.zeros(_N), docs)
        for name, views in (("good", good), ("bad", bad))
        for docs in (0, 10, 100)
    }
    assert weight["good", 0] == weight["bad", 0]
    assert weight["good", 100] < weight["good", 0]
    assert weight["bad", 0] < weight["bad", 10] < weight["bad", 100]


def test_a_single_source_has_no_witness() -> None:
    corroboration = Corroboration(_views(0.7))
    anything = np.random.default_rng(0).normal(size=_N)
    assert corroboration.unexplained(anything, np.zeros(_N)) is None
    assert corroboration.weight(anything, np.zeros(_N), 0) == corroboration.weight(-anything, np.zeros(_N), 100) > 0.0


def test_sources_and_scores_without_spread_explain_nothing() -> None:
    flat = Corroboration(np.ones((5, 2)))
    assert np.isfinite(flat.weight(np.ones(5), np.zeros(5), 3))
