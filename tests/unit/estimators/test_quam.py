from __future__ import annotations

import pytest

from ragtune.core.errors import ConfigError
from ragtune.embedders.tfidf import TfidfEmbedder
from ragtune.estimators.graph.quam import QuamEstimator


@pytest.fixture
def make_quam(letters, folder):
    def make(**arguments) -> QuamEstimator:
        return QuamEstimator(letters, TfidfEmbedder, **({"k": 2, "graph": folder} | arguments))

    return make


def test_affinity_adds_up_over_the_scored_set(make_quam, make_pool, make_context, score, advise):
    pool, context = make_pool(), make_context()
    quam = make_quam()
    assert advise(quam, pool, context) == "abcdef"
    # shares .5 and .5: f = .5 * .5 + .5 * .6 = .55 beats e = .45, which GAR's best edge would not.
    score(pool, a=0.4, b=0.4)
    assert advise(quam, pool, context) == "fed"


def test_affinity_is_weighted_by_the_share_of_the_scores(make_quam, make_pool, make_context, score, advise):
    pool, context = make_pool(), make_context()
    score(pool, a=0.9, b=0.1)
    assert advise(make_quam(), pool, context) == "efd"


def test_only_the_best_of_the_scored_set_count(make_quam, make_pool, make_context, score, advise):
    pool, context = make_pool(), make_context()
    score(pool, a=0.4, b=0.5)
    assert advise(make_quam(top_s=1), pool, context) == "fd"


def test_scores_of_zero_share_evenly(make_quam, make_pool, make_context, score, advise):
    pool, context = make_pool(), make_context()
    score(pool, a=0.0, b=0.0)
    assert advise(make_quam(), pool, context) == "fed"


def test_the_set_is_taken_as_it_stands(make_quam, make_pool, make_context, score, advise):
    pool, context = make_pool(), make_context()
    quam = make_quam(top_s=1)
    score(pool, a=0.4)
    assert advise(quam, pool, context) == "ef"
    score(pool, e=0.1)
    advise(quam, pool, context)
    score(pool, b=0.9)
    assert advise(quam, pool, context) == "fd", "a has left the set, and with it what it lent"


def test_the_pool_may_grow(make_quam, make_pool, make_context, score, discover, advise):
    pool, context = make_pool("abc"), make_context()
    quam = make_quam()
    score(pool, c=0.5)
    advise(quam, pool, context)
    discover(pool, "x")
    assert advise(quam, pool, context) == "x"


@pytest.mark.parametrize("arguments", [{"top_s": 0}, {"top_s": 2.5}, {"k": 0}])
def test_bad_arguments_are_refused(make_quam, arguments):
    with pytest.raises(ConfigError, match=f"estimator.*{next(iter(arguments))}="):
        make_quam(**arguments)
