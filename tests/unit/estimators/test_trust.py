"""How much the reranker and the sources count: what several sources agree on, and a document's own score."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ragtune import Corpus
from ragtune.core.policy.scaling import rank_correlation
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.request.context import RAGtuneContext
from ragtune.embedders.tfidf import TfidfEmbedder
from ragtune.estimators.posterior._first_stage import Corroboration, FirstStageEvidence, contradiction
from ragtune.estimators.posterior.correlation import SourceCorrelation
from ragtune.estimators.posterior.uncertainty import PosteriorBelief, UncertaintyEstimator

_N = 4000


def _views(*validities: float) -> np.ndarray:
    """Views of one relevance that err independently, each correlated with it as its validity says; shape (n, S)."""
    rng = np.random.default_rng(5)
    relevance = rng.normal(size=_N)
    return np.column_stack([v * relevance + np.sqrt(1.0 - v * v) * rng.normal(size=_N) for v in validities])


def _of(columns: np.ndarray, *echoes: str) -> Corroboration:
    names = tuple(f"s{j}" for j in range(columns.shape[1]))
    return Corroboration(FirstStageEvidence(columns, np.ones(columns.shape[1]), names, echoes))


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


def test_a_margin_is_above_0_for_the_sources_that_are_better_than_the_reranker_and_for_no_other() -> None:
    views = _views(0.4, 0.8, 0.6)
    margins = _of(views[:, :2]).margins(np.ones(_N, dtype=bool), views[:, 2])
    assert margins["s1"] == pytest.approx(0.4 * (0.8 - 0.6), abs=0.05)
    assert margins["s0"] == pytest.approx(0.8 * (0.4 - 0.6), abs=0.05)


@pytest.fixture
def after_scores(
    letters: Corpus,
    make_pool: Callable[..., CandidatePool],
    make_context: Callable[..., RAGtuneContext],
    score: Callable[..., None],
    discover: Callable[..., None],
) -> Callable[..., PosteriorBelief]:
    """The belief after a poor document scored well and a good one badly, and a graph found some more."""

    def run(trust: float, found: str = "", memory: dict[int, Any] | None = None) -> PosteriorBelief:
        estimator = UncertaintyEstimator(letters, TfidfEmbedder, trust=trust)
        pool, context = make_pool("abcdef"), make_context()
        pool.apply_priorities(estimator.value(pool, context))
        score(pool, a=0.2, f=0.9)
        discover(pool, *found)
        belief = estimator.value(pool, context).belief
        assert isinstance(belief, PosteriorBelief)
        if memory is not None:
            memory |= context.memory
        return belief

    return run


def test_trust_0_is_the_sources_order_and_trust_1_the_rerankers(after_scores: Callable[..., PosteriorBelief]) -> None:
    assert list(np.argsort(-after_scores(0.0).key)) == [0, 1, 2, 3, 4, 5]
    believed = after_scores(1.0)
    assert believed.key[5] == believed.key.max()
    assert believed.key[0] == believed.key.min()
    np.testing.assert_array_equal(believed.key, believed.mean)


def test_the_more_of_the_pool_a_graph_found_the_more_a_documents_own_score_counts(
    after_scores: Callable[..., PosteriorBelief],
) -> None:
    for found, share in (("", 0.0), ("xy", 2 / 8), ("xyz", 3 / 9)):
        memory: dict[int, Any] = {}
        belief = after_scores(0.5, found, memory)
        [(_, posterior)] = memory.values()
        own = posterior.inverse_scale * posterior.own_logits
        moved = belief.key - belief.mean - posterior.corroboration * posterior.evidence
        np.testing.assert_allclose(moved[[0, 5]], share * (own - belief.mean)[[0, 5]], atol=1e-12)
        np.testing.assert_allclose(moved[1:5], 0.0, atol=1e-12)


def test_scores_that_run_against_the_sources_lose_their_weight_and_chance_alone_does_not() -> None:
    evidence = np.linspace(2.0, -2.0, 40)
    assert rank_correlation(evidence, -evidence) == pytest.approx(-1.0)
    assert rank_correlation(evidence, np.zeros(40)) == rank_correlation(evidence[:0], evidence[:0]) == 0.0
    assert contradiction(1.0, 40) == contradiction(0.0, 0) == 0.0
    assert contradiction(-1.0, 5) == 0.0, "five documents prove nothing"
    assert contradiction(-1.0, 40) == pytest.approx(4.0 * (40 - 20 * 0.3) / 60)


def test_trust_is_lost_where_scores_have_nothing_to_do_with_the_first_stage_and_kept_while_little_is_seen() -> None:
    random, rng = np.random.default_rng(0).normal(0.0, 0.2, 100), np.random.default_rng(1)
    assert SourceCorrelation.of(random - random.mean()).trust == 0.0
    assert SourceCorrelation.of(-abs(random)).trust == 0.0
    assert SourceCorrelation.of(rng.normal(0.3, 0.2, 100)).trust == 0.5
    assert 0.1 < SourceCorrelation.of(0.1 + random - random.mean()).trust < 0.4
    assert SourceCorrelation.of([-1.0] * 29).trust == SourceCorrelation.of([]).trust == 0.5


def test_of_less_than_two_requests_the_error_is_the_largest_that_a_mean_of_correlations_can_have() -> None:
    assert [SourceCorrelation.of(found).error for found in ([], [0.4])] == [1.0, 1.0], "JSON has no infinity"
