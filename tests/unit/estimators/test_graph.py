"""Estimators that follow a graph; tests/conformance compares GAR with its authors' implementation."""

import numpy as np
import pytest

from ragtune import Corpus, Document
from ragtune.core.pool.items import ItemState, PoolItem
from ragtune.core.pool.pool import CandidatePool
from ragtune.embedders.tfidf import TfidfEmbedder
from ragtune.estimators.graph.gar import GAREstimator
from ragtune.estimators.graph.ore import OREEstimator
from ragtune.estimators.graph.quam import QuamEstimator
from ragtune.estimators.graph.rgs import RGSEstimator


@pytest.fixture
def make(letters, folder):
    return lambda kind, **options: kind(letters, TfidfEmbedder, **({"k": 2, "graph": folder} | options))


@pytest.fixture
def gar(make):
    return make(GAREstimator)


def test_a_failed_batch_passes_the_turn_on(gar, make_pool, make_context, score, advise):
    pool, context = make_pool(), make_context()
    score(pool, a=0.5)
    assert advise(gar, pool, context) == "ef"
    pool.transition(["e"], ItemState.IN_FLIGHT)
    pool.transition(["e"], ItemState.DROPPED)
    assert advise(gar, pool, context) == "bcdf"


def test_the_turn_passes_with_batches_and_with_nothing_else(gar, make_pool, make_context, score, advise):
    pool, context = make_pool(), make_context()
    score(pool, a=0.5)
    assert advise(gar, pool, context) == "ef"
    pool.transition(["f"], ItemState.DROPPED)
    assert advise(gar, pool, context) == "e"
    pool.transition(["c"], ItemState.DROPPED)
    assert advise(gar, pool, context) == "e"
    score(pool, b=0.4)
    score(pool, e=0.3)
    assert advise(gar, pool, context) == "d", "two batches: the other source's turn came and went"


def weights(estimator, pool, context) -> list[float]:
    return estimator.value(pool, context).diagnostics["weights"]


def test_the_regression_is_ridge_on_the_features_at_the_time_of_choice(make, make_pool, make_context, score):
    pool, context, ore = make_pool(), make_context(), make(OREEstimator, ridge=2.0)
    ore.value(pool, context)
    score(pool, a=0.9, c=0.2)
    # No document had been scored when these two were chosen, so only the first stage's feature was not zero.
    x = np.array([[1.0, 0.0, 0.0], [0.6, 0.0, 0.0]])
    y = np.array([0.9, 0.2])
    expected = np.linalg.solve(2.0 * np.eye(3) + x.T @ x, 2.0 * np.full(3, 1 / 3) + x.T @ y)
    assert weights(ore, pool, context) == pytest.approx(expected.tolist(), abs=1e-6)


def test_affinity_and_relevance_are_means_over_the_near_heads(make, make_pool, make_context, score):
    pool, context, ore = make_pool(), make_context(), make(OREEstimator, ridge=1e6)
    ore.value(pool, context)
    score(pool, a=0.8, b=0.4)
    values = ore.value(pool, context)
    affinity = (0.8 * 0.5 + 0.4 * 0.6) / 2
    relevance = (0.8 + 0.4) / 2
    assert values["f"] == pytest.approx((0.0 + affinity + relevance) / 3, abs=1e-4)


def test_every_first_stage_source_is_a_feature(make, letters, make_context):
    pool = CandidatePool(
        PoolItem(doc_id=d, initial_rank=i, retrieval_score=1.0, sources=s)
        for i, (d, s) in enumerate({"a": {"bm25": 9.0}, "b": {"bm25": 3.0, "dense": 0.7}, "c": {"dense": 0.9}}.items())
    )
    values = make(OREEstimator).value(pool, make_context())
    assert len(values.diagnostics["weights"]) == 4
    assert dict(values) == pytest.approx({"a": 0.25, "b": 0.0, "c": 0.25})


def test_affinity_adds_up_over_the_scored_set(make, make_pool, make_context, score, advise):
    pool, context = make_pool(), make_context()
    quam = make(QuamEstimator)
    assert advise(quam, pool, context) == "abcdef"
    # shares .5 and .5: f = .5 * .5 + .5 * .6 = .55 beats e = .45, which GAR's best edge would not.
    score(pool, a=0.4, b=0.4)
    assert advise(quam, pool, context) == "fed"


def test_the_set_is_taken_as_it_stands(make, make_pool, make_context, score, advise):
    pool, context = make_pool(), make_context()
    quam = make(QuamEstimator, top_s=1)
    score(pool, a=0.4)
    assert advise(quam, pool, context) == "ef"
    score(pool, e=0.1)
    advise(quam, pool, context)
    score(pool, b=0.9)
    assert advise(quam, pool, context) == "fd", "a has left the set, and with it what it lent"


def test_a_document_that_joins_is_expanded_from_whom_it_is_near(make, make_pool, make_context, score, discover, advise):
    pool, context, rgs = make_pool(), make_context(), make(RGSEstimator)
    score(pool, a=0.5, e=0.9)
    assert advise(rgs, pool, context) == "d"
    discover(pool, "x")
    assert advise(rgs, pool, context) == "xd"


def test_documents_are_scored_in_the_order_of_the_published_algorithm(make_graph, make_context, score, tmp_path):
    rng, k, ids = np.random.default_rng(5), 4, [f"d{i:02d}" for i in range(40)]
    others = {doc: rng.permutation([other for other in ids if other != doc])[:k] for doc in ids}
    edges = {doc: {str(other): 0.9 - i / 10 for i, other in enumerate(near)} for doc, near in others.items()}
    relevance = {doc: rank / len(ids) for doc, rank in zip(ids, rng.permutation(len(ids)).tolist(), strict=True)}
    corpus = Corpus(Document(id=doc, text=f"text {doc}") for doc in ids)
    pool = CandidatePool(
        PoolItem.from_document(corpus.scored(doc, 1.0 - i / 100), i, {"original": 1.0}) for i, doc in enumerate(ids)
    )
    rgs = RGSEstimator(corpus, TfidfEmbedder, k=k, graph=make_graph(tmp_path / "g", corpus, edges, k))
    context, ours = make_context(), []
    while len(ours) < 30:
        pool.apply_priorities(rgs.value(pool, context))
        batch = pool.top_candidates(pool.estimates.batch_limit)
        ours += batch
        score(pool, **{doc: relevance[doc] for doc in batch})
    assert ours[:30] == _published(edges, relevance, ids[0], 30)


def _published(edges, relevance, seed, count):
    """A keeps the documents in the reranker's order, U those that are expanded."""
    found, expanded, scored = [seed], set(), [seed]
    while len(scored) < count:
        best = max((doc for doc in found if doc not in expanded), key=relevance.__getitem__)
        expanded.add(best)
        new = [doc for doc in edges[best] if doc not in found]
        found, scored = found + new, scored + new
    return scored[:count]
