"""What rerankers, acquisitions and assemblers promise."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
import pytest

from ragtune.core.arrays import FloatArray
from ragtune.core.interfaces import BaseAcquisition, BaseAssembler, BaseReranker
from ragtune.core.output import assembled
from ragtune.core.pool.items import ItemState, PoolItem, RerankBatch
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.pool.valuation import Belief
from ragtune.core.request.budget import CostBudget
from ragtune.core.request.context import CostMeter
from ragtune.core.types import FREE
from ragtune.testing.component import ComponentContract, make_context, small_pool_items

_QUERY = "what lowers blood pressure"


class _CommonContract(ComponentContract):
    tolerance: ClassVar[float] = 1e-5

    def make(self) -> BaseReranker:
        """A new reranker that can score the documents of :func:`~ragtune.testing.small_corpus` for query id ``q1``."""
        raise NotImplementedError

    @pytest.fixture
    def items(self) -> list[PoolItem]:
        return small_pool_items()

    def test_gives_the_given_documents_scores_in_the_unit_interval(
        self, made: BaseReranker, items: list[PoolItem]
    ) -> None:
        for batch in (items, items[2:9]):
            scores = made.rerank(batch, make_context(_QUERY), "default")
            assert scores
            assert set(scores) <= {item.doc_id for item in batch}
            for score in scores.values():
                assert isinstance(score, float)
                assert math.isfinite(score)
                assert 0.0 <= score <= 1.0
        blank = [item for item in items if not item.content]
        assert made.rerank(blank, make_context(_QUERY), "default").keys() == {item.doc_id for item in blank}

    def test_is_deterministic(self, made: BaseReranker, items: list[PoolItem]) -> None:
        first = made.rerank(items, make_context(_QUERY), "default")
        assert made.rerank(items, make_context(_QUERY), "default") == first
        assert made.rerank(items[::-1], make_context(_QUERY), "default") == first, "whatever the order of the batch"
        assert self.make().rerank(items, make_context(_QUERY), "default") == first
        assert list(first) == [item.doc_id for item in items if item.doc_id in first]

    def test_an_earlier_request_is_not_noticed(self, made: BaseReranker, items: list[PoolItem]) -> None:
        made.rerank(items, make_context("bowline"), "default")
        expected = self.make().rerank(items, make_context(_QUERY), "default")
        assert made.rerank(items, make_context(_QUERY), "default") == expected

    def test_batches_of_several_requests_are_scored_as_if_alone(
        self, made: BaseReranker, items: list[PoolItem]
    ) -> None:
        parts = [(_QUERY, items[:3]), ("bowline", items[2:9]), (_QUERY, items[1:2])]
        batches = [RerankBatch(some, make_context(query)) for query, some in parts]
        for (query, some), batch, outcome in zip(parts, batches, made.rerank_many(batches), strict=True):
            assert not isinstance(outcome, Exception)
            expected = self.make().rerank(some, make_context(query), "default")
            assert list(outcome) == list(expected)
            assert outcome == pytest.approx(expected, abs=self.tolerance)
            assert batch.context.meter.actual.docs <= len(some), "each request pays for its own"

    def test_an_empty_batch_has_no_scores_and_costs_nothing(self, made: BaseReranker) -> None:
        context = make_context(_QUERY)
        assert made.rerank([], context, "default") == {}
        assert context.meter.actual == CostMeter().actual
        assert context.meter.charged in (None, FREE)

    def test_the_price_grows_with_the_batch_and_is_the_most_that_is_paid(
        self, made: BaseReranker, items: list[PoolItem]
    ) -> None:
        context = make_context(_QUERY)
        one, five = (made.expected_cost(items[:size], context) for size in (1, 5))
        assert made.expected_cost(items[:5], context) == five
        assert context.meter.actual == CostMeter().actual, "asking the price pays nothing"
        assert (one.docs, five.docs) == (1, 5)
        assert five.calls >= one.calls >= 0
        assert five.tokens >= one.tokens >= 0
        assert five.latency_ms >= one.latency_ms
        made.rerank(items[:5], context, "default")
        assert context.meter.actual.docs <= 5
        assert context.meter.actual.tokens <= five.tokens


class RerankerContract(_CommonContract):
    """For rerankers that score each document by itself. Derive from it and define :meth:`make`.

    Attributes:
        tolerance: how far a score may depend on the rest of the batch, since padding changes the last bits of float32.
    """

    def test_a_score_does_not_depend_on_the_rest_of_the_batch(self, made: BaseReranker, items: list[PoolItem]) -> None:
        assert not made.facts.compares
        together = made.rerank(items, make_context(_QUERY), "default")
        for item in items:
            alone = made.rerank([item], make_context(_QUERY), "default")
            assert alone[item.doc_id] == pytest.approx(together[item.doc_id], abs=self.tolerance)


class ComparingRerankerContract(_CommonContract):
    """For rerankers that score a document by its rank in the batch. Derive from it and define :meth:`make`."""

    def test_the_best_of_a_batch_scores_a_half_and_no_two_score_alike(
        self, made: BaseReranker, items: list[PoolItem]
    ) -> None:
        assert made.facts.compares
        scores = made.rerank(items, make_context(_QUERY), "default")
        assert sorted(scores.values(), reverse=True) == [1 / (1 + rank) for rank in range(1, len(items) + 1)]


class KnownBelief(Belief):
    """A belief with mean, shape (n,), covariance, shape (n, n), and the variance of a score's noise."""

    def __init__(self, mean: list[float], covariance: FloatArray, noise: float = 0.1) -> None:
        self.mean = np.array(mean, dtype=float)
        self.key = self.mean
        self.noise = noise
        self._covariance = covariance
        self.variance = np.diag(covariance).copy()

    def observing(self, position: int) -> KnownBelief:
        column = self._covariance[:, position]
        shrunk = self._covariance - np.outer(column, column) / (column[position] + self.noise)
        return KnownBelief(self.mean.tolist(), shrunk, self.noise)


class AcquisitionContract(ComponentContract):
    """Derive from it and define :meth:`make`."""

    def make(self) -> BaseAcquisition:
        """A new acquisition."""
        raise NotImplementedError

    @pytest.mark.parametrize("n", [1, 2, 30])
    def test_one_finite_number_a_document_the_same_every_time(self, made: BaseAcquisition, n: int) -> None:
        pool = CandidatePool(PoolItem(doc_id=f"d{i}", initial_rank=i, sources={"s": float(-i)}) for i in range(n))
        for belief in (KnownBelief([0.0] * n, np.zeros((n, n))), KnownBelief([float(i) for i in range(n)], np.eye(n))):
            utility = made.utility(belief, pool)
            assert utility.shape == (n,)
            assert np.isfinite(utility).all()
            np.testing.assert_array_equal(utility, made.utility(belief, pool))
            np.testing.assert_array_equal(utility, self.make().utility(belief, pool))


class AssemblerContract(ComponentContract):
    """Derive from it and define :meth:`make`."""

    def make(self) -> BaseAssembler:
        """A new assembler."""
        raise NotImplementedError

    @pytest.fixture
    def pool(self) -> CandidatePool:
        """Two that were reranked, one that could not be scored, and the others with priorities."""
        pool = CandidatePool(small_pool_items())
        pool.apply_priorities({doc_id: 0.9 - i / 20 for i, doc_id in enumerate(pool.doc_ids)})
        pool.transition(["ship-2", "tea-1", "star-1"], ItemState.IN_FLIGHT)
        pool.update_scores({"ship-2": 0.3, "tea-1": 1.0}, "default")
        pool.transition(["star-1"], ItemState.DROPPED)
        return pool

    @pytest.mark.parametrize("tokens", [0, 1, 40, None])
    def test_documents_of_the_pool_each_once_in_its_order_within_the_tokens(
        self, made: BaseAssembler, pool: CandidatePool, tokens: int | None
    ) -> None:
        items = list(pool)
        trackers = [CostBudget.only(max_tokens=tokens, assembly_token_buffer=0).create_tracker() for _ in range(2)]
        context, request = (make_context(tracker=tracker) for tracker in trackers)
        documents = made.assemble(items, context)
        ids = [document.id for document in documents]
        assert ids == [item.doc_id for item in made.ordering.sort(items) if item.doc_id in ids]
        keys = {item.doc_id: key for item, key in made.ordering.ranked(items)}
        assert [document.score for document in documents] == [keys[doc_id] for doc_id in ids]
        assert tokens is None or sum(item.token_count for item in items if item.doc_id in ids) <= tokens
        assert documents or tokens is not None, "where tokens are not limited, there is something to read"
        assert assembled(made, pool, made.ordering.keys(pool), request) == documents
        assert trackers[0].snapshot()["tokens"] == trackers[1].snapshot()["tokens"]

    def test_the_order_of_the_items_means_nothing(self, made: BaseAssembler, pool: CandidatePool) -> None:
        items = list(pool)
        assert made.assemble(items[::-1], make_context()) == made.assemble(items, make_context())
        assert made.assemble([], make_context()) == []
