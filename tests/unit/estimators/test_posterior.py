"""Gaussian posteriors over relevance, beside the textbook's formulas, and the oracle."""

import tracemalloc
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from ragtune.core.pool.items import PoolItem
from ragtune.estimators.posterior._first_stage import FirstStageEvidence, first_stage_evidence, source_weights
from ragtune.estimators.posterior._posterior import Prior, RelevancePosterior
from ragtune.estimators.posterior.bagel import BAGELEstimator
from ragtune.estimators.posterior.uncertainty import PosteriorBelief
from ragtune.estimators.score_oracle import ScoreOracleEstimator


def _evidence(n: int, sources: int = 1, seed: int = 0) -> FirstStageEvidence:
    rng = np.random.default_rng(seed)
    items = [
        PoolItem(doc_id=f"d{i}", initial_rank=i, sources={f"s{j}": float(rng.normal()) for j in range(sources)})
        for i in range(n)
    ]
    return first_stage_evidence(items)


def _rows(n: int, terms: int = 12, seed: int = 1) -> csr_matrix:
    dense = np.random.default_rng(seed).random((n, terms)) * (np.random.default_rng(seed + 1).random((n, terms)) < 0.4)
    lengths = np.linalg.norm(dense, axis=1, keepdims=True)
    return csr_matrix(dense / np.where(lengths > 0, lengths, 1.0))


def _direct(
    posterior: RelevancePosterior, prior: Prior, rows: csr_matrix, scored: list[int], logits: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Rasmussen and Williams 2.23 and 2.24 by dense inversion, at the scale that the posterior found."""
    design, mean = posterior.covariance.design, posterior._prior_mean
    kernel = _kernel(design, prior, rows)
    gram = np.linalg.inv(kernel[np.ix_(scored, scored)] + prior.noise * np.eye(len(scored)))
    cross = kernel[:, scored]
    expected = mean + cross @ gram @ (posterior.inverse_scale * logits - mean[scored])
    return expected, np.diag(kernel - cross @ gram @ cross.T)


def _kernel(design: np.ndarray, prior: Prior, rows: csr_matrix) -> np.ndarray:
    cosines = (rows @ rows.T).toarray()
    own = prior.own_variance + prior.text_weight * (1.0 - np.diag(cosines))
    return np.asarray(design @ design.T + prior.text_weight * cosines + np.diag(own))


@pytest.mark.parametrize("sources", [1, 3])
def test_conditioning_in_batches_equals_dense_gaussian_process_regression(sources: int) -> None:
    prior, rows = Prior(), _rows(40)
    posterior = RelevancePosterior(_evidence(40, sources), rows, prior)
    scored = [3, 17, 0, 39, 8]
    scores = np.array([0.9, 0.2, 0.6, 0.01, 0.5])
    posterior.update(scored[:2], scores[:2], ["a", "a"])
    posterior.update(scored[2:], scores[2:], ["a", "a", "a"])
    mean, variance = _direct(posterior, prior, rows, scored, np.log(scores / (1 - scores)))
    np.testing.assert_allclose(posterior.mean, mean, atol=1e-9)
    np.testing.assert_allclose(posterior.variance, variance, atol=1e-9)


def test_the_scale_is_the_maximum_of_its_posterior_density() -> None:
    prior, rows = Prior(), _rows(20)
    posterior = RelevancePosterior(_evidence(20), rows, prior)
    scored, scores = [1, 5, 7], np.array([0.99, 0.4, 0.05])
    posterior.update(scored, scores, ["a"] * 3)
    design, mean = posterior.covariance.design, posterior._prior_mean
    kernel = _kernel(design, prior, rows)
    gram = np.linalg.inv(kernel[np.ix_(scored, scored)] + prior.noise * np.eye(3))
    logits = np.log(scores / (1 - scores))

    def log_density(s: float) -> float:
        residual = s * logits - mean[scored]
        return float(
            (3 + prior.scale_strength) * np.log(s)
            - 0.5 * residual @ gram @ residual
            - 0.5 * s * s * prior.scale_strength * prior.scale**2
        )

    best = log_density(posterior.inverse_scale)
    assert all(log_density(posterior.inverse_scale * f) <= best for f in (0.9, 0.99, 1.01, 1.1))


def test_extension_equals_having_had_the_documents_from_the_start() -> None:
    """New documents have no first-stage evidence, so only the text part of the covariance is compared."""
    prior = replace(Prior(), intercept_variance=0.0, evidence_variance=0.0, feedback_variance=0.0)
    rows = _rows(30)
    whole = RelevancePosterior(_evidence(30), rows, prior)
    grown = RelevancePosterior(_evidence(20), rows[:20], prior)
    for posterior in (whole, grown):
        posterior.update([2, 9], [0.8, 0.3], ["a", "a"])
    grown.extend(rows[20:])
    np.testing.assert_allclose(grown.variance, whole.variance, atol=1e-9)
    grown.update([25], [0.7], ["a"])
    whole.update([25], [0.7], ["a"])
    np.testing.assert_allclose(grown.variance, whole.variance, atol=1e-9)


def test_a_second_strategy_is_calibrated_to_the_first() -> None:
    rows = _rows(30)
    posterior = RelevancePosterior(_evidence(30), rows, Prior())
    posterior.update(range(10), np.linspace(0.1, 0.9, 10), ["ce"] * 10)
    before = posterior.mean.copy()
    posterior.update(range(10, 20), np.full(10, 0.999), ["llm"] * 10)
    other = RelevancePosterior(_evidence(30), rows, Prior())
    other.update(range(10), np.linspace(0.1, 0.9, 10), ["ce"] * 10)
    other.update(range(10, 20), np.full(10, 0.999), ["ce"] * 10)
    assert abs(posterior.mean[20:] - before[20:]).mean() < abs(other.mean[20:] - before[20:]).mean()


def test_a_document_without_text_learns_from_its_own_score() -> None:
    """Found on BRIGHT, which has no texts: no variance was left for the reranker to be right with."""
    rows, prior = csr_matrix((10, 12)), Prior()
    posterior = RelevancePosterior(_evidence(10), rows, prior)
    posterior.update([3], [0.2], ["a"])  # where the reranker's scores lie is not known before
    before = posterior.mean.copy()
    posterior.update([9], [0.999], ["a"])
    assert posterior.mean[9] == posterior.mean.max()
    assert (posterior.mean - before)[9] > (posterior.mean - before)[:9].max() + 0.5


def test_a_belief_stays_what_it_was_whatever_is_supposed_or_scored_after_it() -> None:
    posterior = RelevancePosterior(_evidence(60), _rows(60), Prior())
    posterior.update([0], [0.9], ["a"])
    belief = PosteriorBelief(posterior, posterior.mean, 0.2)
    supposed = belief.observing(4)
    first, second = belief.observing(5).variance, supposed.observing(5).variance
    supposed.observing(6).observing(7)
    np.testing.assert_array_equal(belief.observing(5).variance, first)
    np.testing.assert_array_equal(supposed.observing(5).variance, second)
    posterior.update(range(10, 50), [0.5] * 40, ["a"] * 40)
    np.testing.assert_array_equal(belief.observing(5).variance, first)
    np.testing.assert_array_equal(supposed.observing(5).variance, second)


def test_copies_share_the_weight_of_one_source_and_take_none_from_another() -> None:
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=(2, 200))
    np.testing.assert_allclose(source_weights(np.column_stack([a, 2.0 * a])), [0.5, 0.5])
    weights = source_weights(np.column_stack([a, a, b]))
    assert weights[0] == pytest.approx(weights[1])
    assert weights[2] > 0.8


def test_random_numbers_that_do_not_follow_the_texts_weigh_little_beside_a_source_that_does() -> None:
    rng = np.random.default_rng(6)
    topic = np.repeat([0, 1], 50)
    rows = np.hstack([np.eye(2)[topic], 0.5 * rng.random((100, 6))])
    rows = csr_matrix(rows / np.linalg.norm(rows, axis=1, keepdims=True))
    columns = np.column_stack([topic + 0.3 * rng.normal(size=100), rng.normal(size=100)])
    follows, random = source_weights(columns, rows)
    assert follows > 0.8
    assert random < 0.2
    np.testing.assert_array_equal(source_weights(columns, csr_matrix((100, 8))), source_weights(columns))


@pytest.mark.parametrize("ranked", [1, 2])
def test_a_pool_too_small_to_have_a_spread_extends_to_finite_numbers(ranked: int) -> None:
    """Found live on nfcorpus: one ranked document has no spread of likeness, and its graph neighbours overflowed."""
    rows = _rows(12)
    posterior = RelevancePosterior(_evidence(ranked), rows[:ranked], Prior())
    posterior.update([0], [0.9], ["a"])
    posterior.extend(rows[ranked:])
    posterior.update(range(ranked, 8), [0.5] * (8 - ranked), ["a"] * (8 - ranked))
    assert np.abs(posterior.mean).max() < 100
    assert posterior.variance.max() < 100


def test_hashed_terms_take_the_memory_of_those_that_occur_and_give_the_same_numbers() -> None:
    rows, prior = _rows(20), Prior()
    columns = np.sort(np.random.default_rng(3).choice(2**20, rows.shape[1], replace=False))
    hashed = csr_matrix((rows.data, columns[rows.indices], rows.indptr), shape=(20, 2**20))
    means = []
    for given_rows in (rows, hashed):
        tracemalloc.start()
        posterior = RelevancePosterior(_evidence(20), given_rows, prior)
        posterior.update([4, 5, 6], np.array([0.9, 0.5, 0.1]), ["ce"] * 3)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 2**20
        means.append(posterior.mean)
    assert means[0].tobytes() == means[1].tobytes()


ANGLES = {"a": 50.0, "b": 40.0, "c": 5.0, "d": 95.0, "e": 100.0, "f": 200.0}
"""Where documents stand on a circle; the query is at 0 degrees."""


def at(degrees: list[float]) -> np.ndarray:
    return np.column_stack([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))])


def make(**options: float) -> BAGELEstimator:
    circle = SimpleNamespace(of=lambda items: at([ANGLES[i.doc_id] for i in items]), of_query=lambda text: at([0.0]))
    return BAGELEstimator(None, lambda corpus: circle, **options)


def test_the_posterior_is_that_of_a_gaussian_process_with_the_query_at_the_maximum(make_pool, make_context, score):
    pool, context = make_pool(), make_context()
    score(pool, a=0.6, d=0.1)
    found = make(noise=0.01).value(pool, context)
    told, every = at([ANGLES["a"], ANGLES["d"], 0.0]), at(list(ANGLES.values()))
    scores = np.array([0.6, 0.1, 1.0])
    observed = (scores - scores.mean()) / scores.std()

    def kernel(one, other, length):
        return np.exp(-(1.0 - one @ other.T) / length**2)

    def fit(length):
        covariance = kernel(told, told, length) + 0.01 * np.eye(3)
        likelihood = -0.5 * observed @ np.linalg.solve(covariance, observed) - 0.5 * np.linalg.slogdet(covariance)[1]
        return likelihood, kernel(every, told, length) @ np.linalg.solve(covariance, observed)

    length = found.diagnostics["length_scale"]
    assert fit(length)[0] >= max(fit(other)[0] for other in np.geomspace(0.01, 2.0, 24)) - 1e-4
    assert found.posterior == pytest.approx(scores.mean() + scores.std() * fit(length)[1], abs=1e-4)


def test_what_the_reranker_loses_comes_last(fakes, make_pool, make_context):
    lossy = fakes.Reranker(recorded=True, script=[{"a": 0.2, "c": 0.9}])
    mean = ScoreOracleEstimator(lossy).value(make_pool("abc"), make_context()).mean
    np.testing.assert_array_equal(mean, [0.2, 0.0, 0.9])
