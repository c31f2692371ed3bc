"""How the posterior order weighs a document's own score, beyond what its likes say of it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from typing import Any

import numpy as np
import pytest

from ragtune import Corpus, Document
from ragtune.core.errors import ConfigError
from ragtune.core.pool.items import PoolItem
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.request.context import RAGtuneContext
from ragtune.embedders.tfidf import TfidfEmbedder
from ragtune.estimators.posterior.uncertainty import PosteriorBelief, UncertaintyEstimator


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


def test_the_more_trust_the_further_a_documents_own_score_moves_it(
    after_scores: Callable[..., PosteriorBelief],
) -> None:
    lead = [belief.key[5] - belief.key[0] for belief in map(after_scores, (0.1, 0.3, 0.5, 0.7, 0.9))]
    assert lead == sorted(lead)
    assert lead[0] < 0.0 < lead[-1]


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


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("feedback_docs", 2.5, "a whole number"),
        ("feedback_docs", 0, ">= 1"),
        ("noise", 1e-300, ">= 1e-06"),
        ("scale", 0.0, ">= 1e-06"),
        ("evidence_slope", float("nan"), "a number"),
    ],
)
def test_a_prior_out_of_range_is_refused_before_any_query(
    letters: Corpus, name: str, value: float, allowed: str
) -> None:
    with pytest.raises(ConfigError, match=f"estimator.{name}={value!r}: allowed is .*{allowed}"):
        UncertaintyEstimator(letters, TfidfEmbedder, **{name: value})


def test_the_trace_says_how_often_the_covariance_was_regularised(
    letters: Corpus, make_pool: Callable[..., CandidatePool], make_context: Callable[..., RAGtuneContext]
) -> None:
    estimator = UncertaintyEstimator(letters, TfidfEmbedder)
    assert estimator.value(make_pool("abcdef"), make_context()).diagnostics["regularised"] == 0


@pytest.mark.parametrize("found", ["", "xy"])
def test_the_solver_of_growing_pools_is_loaded_where_one_grows_and_off_the_clock(
    letters: Corpus,
    make_pool: Callable[..., CandidatePool],
    make_context: Callable[..., RAGtuneContext],
    score: Callable[..., None],
    discover: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    found: str,
) -> None:
    estimator, pool, context = UncertaintyEstimator(letters, TfidfEmbedder), make_pool(), make_context()
    clock, stood = context.tracker.clock, []

    class Watch(MetaPathFinder):
        def find_spec(self, name: str, path: Any, target: Any = None) -> None:
            if name == "scipy.linalg":
                stood.append(clock.now_ms() == clock.now_ms())

    monkeypatch.delitem(sys.modules, "scipy.linalg", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Watch(), *sys.meta_path])
    estimator.prepare()
    estimator.value(pool, context)
    score(pool, a=0.2, f=0.9)
    estimator.value(pool, context)
    discover(pool, *found)
    estimator.value(pool, context)
    assert stood == ([True] if found else [])


@pytest.fixture
def valued(make_context: Callable[..., RAGtuneContext], score: Callable[..., None]) -> Callable[..., Any]:
    """The belief on documents with these texts after two scores, and their prior means; sources by name."""

    def run(texts: str, sources: dict[str, list[float]], **options: Any) -> tuple[PosteriorBelief, np.ndarray]:
        corpus = Corpus(Document(id=str(i), text=text) for i, text in enumerate(texts.split(",")))
        estimator = UncertaintyEstimator(corpus, TfidfEmbedder, **options)
        said = [dict(zip(sources, values, strict=True)) for values in zip(*sources.values(), strict=True)]
        pool = CandidatePool(
            PoolItem.from_document(corpus.scored(str(i), scores["bm25"]), i, scores) for i, scores in enumerate(said)
        )
        context = make_context()
        pool.apply_priorities(estimator.value(pool, context))
        before = np.asarray(estimator.value(pool, context).belief.mean)
        score(pool, **{"0": 0.1, "3": 0.8})
        belief = estimator.value(pool, context).belief
        assert isinstance(belief, PosteriorBelief)
        return belief, before

    return run


TEXTS = "red fox,red fox runs,blue sea,red sea,blue whale in the sea,red fox and dog"
BM25 = {"bm25": [9.0, 7.5, 7.0, 6.0, 4.0, 3.0]}


def test_its_own_prior_as_a_source_is_what_a_signal_of_the_prior_means_would_say(valued: Callable[..., Any]) -> None:
    plain, means = valued(TEXTS, BM25, feedback_source=False)
    found, _ = valued(TEXTS, BM25)
    as_signal, _ = valued(TEXTS, {**BM25, "means": means.tolist()}, echoes=["means"], feedback_source=False)
    np.testing.assert_allclose(found.key, as_signal.key)
    np.testing.assert_allclose(found.variance, as_signal.variance)
    assert not np.allclose(found.key, plain.key)


def test_where_documents_have_no_text_its_prior_says_nothing_new(valued: Callable[..., Any]) -> None:
    plain, _ = valued(",,,,,", BM25, feedback_source=False)
    found, _ = valued(",,,,,", BM25)
    np.testing.assert_array_equal(found.key, plain.key)
