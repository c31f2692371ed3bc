"""When the loop lets the pool grow, and what grown pools are worth."""

from __future__ import annotations

import pytest

from ragtune import CostBudget, ScoredDocument
from ragtune.core.policy.batching import choose
from ragtune.core.policy.scaling import first_stage_scores
from ragtune.core.pool.items import PoolItem
from ragtune.core.pool.pool import CandidatePool

limits = CostBudget.only


def grown(retrieved, discovered) -> CandidatePool:
    pool = CandidatePool(
        PoolItem(doc_id=f"r{i}", initial_rank=i, retrieval_score=s, sources={"bm25": s})
        for i, s in enumerate(retrieved)
    )
    pool.add(
        PoolItem(doc_id=f"g{i}", initial_rank=len(retrieved) + i, retrieval_score=s, sources={"graph": s})
        for i, s in enumerate(discovered)
    )
    return pool


def test_the_estimator_sees_the_scores_before_the_expander_is_asked(fakes):
    seen = []

    def value(pool, context):
        seen.append(("estimate", len(pool), len(pool.reranked)))
        return pool.valuation(pool.base_scores)

    def find(pool, limit):
        seen.append(("expand", len(pool), len(pool.reranked)))
        return [ScoredDocument(id="new", score=0.5)] if len(pool) == 20 else []

    fakes.controller(
        estimator=fakes.Estimator(value), expander=fakes.Expander(find), budget=limits(max_reranker_docs=10)
    ).run("q")
    assert seen == [
        ("estimate", 20, 0),
        ("estimate", 20, 5),
        ("expand", 20, 5),
        ("estimate", 21, 5),
        ("estimate", 21, 10),
    ]


def test_nothing_is_looked_for_that_no_batch_could_score(fakes):
    expander = fakes.Expander(lambda pool, limit: [])
    fakes.controller(expander=expander, budget=limits(max_reranker_docs=10)).run("q")
    assert len(expander.limits) == 1


def test_growth_changes_no_retrieved_document_s_value():
    before = first_stage_scores(grown([30.0, 20.0, 10.0], []))
    after = first_stage_scores(grown([30.0, 20.0, 10.0], [0.4, 0.1]))
    assert after.tolist() == [*before.tolist(), 0.4, 0.1]


@pytest.mark.parametrize("source", ["graph", "bm25"])
def test_values_after_growth_are_the_same_whether_or_not_they_were_asked_for_before(source):
    pools = [grown([30.0, 20.0, 10.0], [0.2]) for _ in range(2)]
    first_stage_scores(pools[0])
    for pool in pools:
        pool.add([PoolItem(doc_id="late", initial_rank=9, retrieval_score=25.0, sources={source: 25.0})])
    assert first_stage_scores(pools[0]).tolist() == first_stage_scores(pools[1]).tolist()


@pytest.mark.parametrize(("limit", "expected"), [(None, 3), (2, 2), (1, 1), (9, 3)])
def test_an_estimator_may_limit_the_batch(fakes, limit, expected):
    pool = fakes.pool(6)
    pool.apply_priorities(pool.valuation(pool.base_scores, batch_limit=limit))
    assert choose(pool, 3, None) == list(pool.doc_ids[:expected])
