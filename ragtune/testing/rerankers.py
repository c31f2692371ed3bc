"""What every reranker promises (:class:`~ragtune.core.interfaces.BaseReranker`)."""

from __future__ import annotations

import math
from typing import ClassVar

import pytest

from ragtune.core.interfaces import BaseReranker
from ragtune.core.pool.items import PoolItem, RerankBatch
from ragtune.core.request.context import CostMeter
from ragtune.core.types import FREE
from ragtune.testing.collection import make_context, small_pool_items
from ragtune.testing.files import require_declared_files

QUERY = "what lowers blood pressure"


class _CommonContract:
    tolerance: ClassVar[float] = 1e-5

    def make(self) -> BaseReranker:
        """A new reranker that can score the documents of :func:`~ragtune.testing.small_corpus` for query id ``q1``."""
        raise NotImplementedError

    @pytest.fixture
    def reranker(self) -> BaseReranker:
        return self.make()

    @pytest.fixture
    def items(self) -> list[PoolItem]:
        return small_pool_items()

    def test_files_that_it_is_given_are_declared(self) -> None:
        require_declared_files(self.make)

    def test_scores_the_given_documents_and_no_others(self, reranker: BaseReranker, items: list[PoolItem]) -> None:
        batch = items[2:9]
        scores = reranker.rerank(batch, make_context(QUERY), "default")
        assert set(scores) <= {item.doc_id for item in batch}
        assert scores

    def test_scores_are_calibrated_to_the_unit_interval(self, reranker: BaseReranker, items: list[PoolItem]) -> None:
        for score in reranker.rerank(items, make_context(QUERY), "default").values():
            assert isinstance(score, float)
            assert math.isfinite(score)
            assert 0.0 <= score <= 1.0

    def test_is_deterministic(self, reranker: BaseReranker, items: list[PoolItem]) -> None:
        first = reranker.rerank(items, make_context(QUERY), "default")
        assert reranker.rerank(items, make_context(QUERY), "default") == first
        assert self.make().rerank(items, make_context(QUERY), "default") == first
        assert list(first) == [item.doc_id for item in items if item.doc_id in first]

    def test_an_earlier_request_is_not_noticed(self, reranker: BaseReranker, items: list[PoolItem]) -> None:
        reranker.rerank(items, make_context("bowline"), "default")
        expected = self.make().rerank(items, make_context(QUERY), "default")
        assert reranker.rerank(items, make_context(QUERY), "default") == expected

    def test_batches_of_several_requests_are_scored_as_if_alone(
        self, reranker: BaseReranker, items: list[PoolItem]
    ) -> None:
        parts = [(QUERY, items[:3]), ("bowline", items[2:9]), (QUERY, items[1:2])]
        batches = [RerankBatch(some, make_context(query)) for query, some in parts]
        outcomes = reranker.rerank_many(batches)
        for (query, some), batch, outcome in zip(parts, batches, outcomes, strict=True):
            assert not isinstance(outcome, Exception)
            expected = self.make().rerank(some, make_context(query), "default")
            assert list(outcome) == list(expected)
            assert outcome == pytest.approx(expected, abs=self.tolerance)
            assert batch.context.meter.actual.docs <= len(some), "each request pays for its own"

    def test_a_score_does_not_depend_on_the_order_of_the_batch(
        self, reranker: BaseReranker, items: list[PoolItem]
    ) -> None:
        forward = reranker.rerank(items, make_context(QUERY), "default")
        assert reranker.rerank(items[::-1], make_context(QUERY), "default") == forward

    def test_an_empty_batch_has_no_scores_and_costs_nothing(self, reranker: BaseReranker) -> None:
        context = make_context(QUERY)
        assert reranker.rerank([], context, "default") == {}
        assert context.meter.actual == CostMeter().actual
        assert context.meter.charged in (None, FREE)

    def test_the_price_grows_with_the_batch_and_counts_its_documents(
        self, reranker: BaseReranker, items: list[PoolItem]
    ) -> None:
        one = reranker.expected_cost(items[:1], make_context(QUERY))
        five = reranker.expected_cost(items[:5], make_context(QUERY))
        assert (one.docs, five.docs) == (1, 5)
        assert five.calls >= one.calls >= 0
        assert five.tokens >= one.tokens >= 0
        assert five.latency_ms >= one.latency_ms

    def test_asking_the_price_pays_nothing(self, reranker: BaseReranker, items: list[PoolItem]) -> None:
        context = make_context(QUERY)
        assert reranker.expected_cost(items, context) == reranker.expected_cost(items, context)
        assert context.meter.actual == CostMeter().actual

    def test_never_pays_for_more_than_it_was_given(self, reranker: BaseReranker, items: list[PoolItem]) -> None:
        context = make_context(QUERY)
        reranker.rerank(items[:5], context, "default")
        assert context.meter.actual.docs <= 5
        assert context.meter.actual.tokens <= reranker.expected_cost(items[:5], context).tokens

    def test_a_document_without_text_is_scored_too(self, reranker: BaseReranker, items: list[PoolItem]) -> None:
        blank = [item for item in items if not item.content]
        assert blank
        assert set(reranker.rerank(blank, make_context(QUERY), "default")) == {item.doc_id for item in blank}


class RerankerContract(_CommonContract):
    """For rerankers that score each document by itself. Derive from it and define :meth:`make`.

    Attributes:
        tolerance: how far a score may depend on the rest of the batch, since padding changes the last bits of float32.
    """

    def test_does_not_say_that_it_compares(self, reranker: BaseReranker) -> None:
        assert not reranker.compares

    def test_a_score_does_not_depend_on_the_rest_of_the_batch(
        self, reranker: BaseReranker, items: list[PoolItem]
    ) -> None:
        together = reranker.rerank(items, make_context(QUERY), "default")
        for item in items:
            alone = reranker.rerank([item], make_context(QUERY), "default")
            assert alone[item.doc_id] == pytest.approx(together[item.doc_id], abs=self.tolerance)


class ComparingRerankerContract(_CommonContract):
    """For rerankers that score a document by its rank in the batch. Derive from it and define :meth:`make`."""

    def test_says_that_it_compares(self, reranker: BaseReranker) -> None:
        assert reranker.compares

    def test_the_best_of_a_batch_scores_a_half_and_no_two_score_alike(
        self, reranker: BaseReranker, items: list[PoolItem]
    ) -> None:
        scores = reranker.rerank(items, make_context(QUERY), "default")
        assert sorted(scores.values(), reverse=True) == [1 / (1 + rank) for rank in range(1, len(items) + 1)]
