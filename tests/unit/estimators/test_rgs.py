"""Best-first search on a graph, beside the algorithm as it is published."""

from __future__ import annotations

import numpy as np
import pytest

from ragtune import Corpus, Document
from ragtune.core.errors import ConfigError
from ragtune.core.pool.items import PoolItem
from ragtune.core.pool.pool import CandidatePool
from ragtune.embedders.tfidf import TfidfEmbedder
from ragtune.estimators.graph.rgs import RGSEstimator


@pytest.fixture
def make_rgs(letters, folder):
    def make(**arguments) -> RGSEstimator:
        return RGSEstimator(letters, TfidfEmbedder, **({"k": 2, "graph": folder} | arguments))

    return make


def test_the_best_that_is_not_expanded_is_expanded_next(make_rgs, make_pool, make_context, score, advise):
    pool, context, rgs = make_pool(), make_context(), make_rgs()
    assert advise(rgs, pool, context) == "a", "the search begins with the first stage's best"
    score(pool, a=0.5)
    assert advise(rgs, pool, context) == "ef"
    score(pool, e=0.9, f=0.7)
    assert advise(rgs, pool, context) == "d"
    score(pool, d=0.1)
    assert advise(rgs, pool, context) == "b", "nothing is left to expand: another search begins"


def test_a_document_that_joins_is_expanded_from_whom_it_is_near(
    make_rgs, make_pool, make_context, score, discover, advise
):
    pool, context, rgs = make_pool(), make_context(), make_rgs()
    score(pool, a=0.5, e=0.9)
    assert advise(rgs, pool, context) == "d"
    discover(pool, "x")
    assert advise(rgs, pool, context) == "xd"


def test_only_so_many_of_the_best_are_expanded(make_rgs, make_pool, make_context, score, advise):
    pool, context = make_pool("abcdf"), make_context()
    score(pool, a=0.5, b=0.9)
    assert advise(make_rgs(length=1), pool, context) == "fd"
    score(pool, c=0.95)
    assert advise(make_rgs(length=1), pool, context) == "d", "c has no neighbour in the pool, and b no turn"
    assert advise(make_rgs(length=2, seeds=3), pool, context) == "fd"


@pytest.mark.parametrize(("name", "value"), [("k", 0), ("seeds", 0), ("length", 0), ("seeds", 1.5)])
def test_bad_arguments_are_refused(make_rgs, name, value):
    with pytest.raises(ConfigError, match=name):
        make_rgs(**{name: value})


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
