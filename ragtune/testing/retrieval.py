"""What retrievers, signals, expanders, reformulators, fusions and embedders promise."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from random import Random

import numpy as np
import pytest

from ragtune.core.interfaces import (
    BaseEmbedder,
    BaseExpander,
    BaseFusion,
    BaseReformulator,
    BaseRetriever,
    BaseSignal,
)
from ragtune.core.pool.items import ItemState, PoolItem
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import FREE, ScoredDocument
from ragtune.retrievers.bm25 import BM25Retriever
from ragtune.testing.component import ComponentContract, make_context, small_corpus, small_pool_items

_QUERIES = {
    "known": "how does heart pressure rise",
    "unknown_words": "zzyzx qwrtp",
    "empty": "",
    "stopwords": "the of and",
    "duplicated_text": "knead the loaves",
    "repeated": "honey honey honey tea",
    "unicode": "café ☕ 茶",
}


class _QueriedContract(ComponentContract):
    @pytest.fixture(params=_QUERIES)
    def query(self, request: pytest.FixtureRequest) -> str:
        return _QUERIES[request.param]


class RetrieverContract(_QueriedContract):
    """Derive from it and define :meth:`make`."""

    def make(self) -> BaseRetriever:
        """A new retriever over ``self.corpus``."""
        raise NotImplementedError

    @pytest.mark.parametrize("top_k", [1, 1000])
    def test_returns_at_most_top_k_documents_of_the_corpus_each_once_best_first_ties_by_id(
        self, made: BaseRetriever, query: str, top_k: int
    ) -> None:
        found = made.retrieve(make_context(query), top_k)
        ids = [doc.id for doc in found]
        assert len(ids) <= min(top_k, len(self.corpus))
        assert len(set(ids)) == len(ids)
        assert all(doc_id in self.corpus for doc_id in ids)
        assert all(math.isfinite(doc.score) for doc in found)
        order = [(-doc.score, doc.id) for doc in found]
        assert order == sorted(order)
        assert made.retrieve(make_context(query), top_k) == found

    def test_a_smaller_top_k_is_a_prefix(self, made: BaseRetriever, query: str) -> None:
        many = [(doc.id, doc.score) for doc in made.retrieve(make_context(query), 3)]
        few = [(doc.id, doc.score) for doc in made.retrieve(make_context(query), 1)]
        assert few == many[:1]

    def test_an_earlier_request_is_not_noticed(self, made: BaseRetriever) -> None:
        made.retrieve(make_context("bowline"), 5)
        expected = self.make().retrieve(make_context("honey in bread"), 5)
        assert made.retrieve(make_context("honey in bread"), 5) == expected

    def test_documents_carry_what_the_pool_needs(self, made: BaseRetriever) -> None:
        found = made.retrieve(make_context("heart"), 5)
        assert found
        for doc in found:
            assert doc.content == self.corpus[doc.id].content
            assert doc.token_count == self.corpus.scored(doc.id, 0.0).token_count

    def test_finds_the_document_that_the_query_is_about(self, made: BaseRetriever) -> None:
        assert "ship-1" in [doc.id for doc in made.retrieve(make_context("bowline"), 1)]


class SignalContract(_QueriedContract):
    """Derive from it and define :meth:`make`."""

    @property
    def documents(self) -> list[ScoredDocument]:
        """The documents of a first stage: the collection in its order, with falling scores."""
        return [self.corpus.scored(doc_id, 1.0 / rank) for rank, doc_id in enumerate(self.corpus.doc_ids, start=1)]

    def make(self) -> BaseSignal:
        """A new signal for ``self.documents``."""
        raise NotImplementedError

    @pytest.fixture
    def made(self) -> BaseSignal:
        signal = self.make()
        signal.prepare()
        return signal

    def test_values_are_finite_numbers_of_the_given_documents(self, made: BaseSignal, query: str) -> None:
        some = self.documents[2:9]
        values = made.values(make_context(query), some)
        assert values.keys() <= {document.id for document in some}
        assert all(math.isfinite(value) for value in values.values())
        assert not made.values(make_context(query), [])

    def test_knows_something_of_what_a_query_is_about(self, made: BaseSignal) -> None:
        assert len(set(made.values(make_context("honey in bread"), self.documents).values())) > 1

    def test_a_documents_value_depends_on_no_other_document(self, made: BaseSignal, query: str) -> None:
        together = dict(made.values(make_context(query), self.documents))
        assert dict(made.values(make_context(query), self.documents[::-1])) == together
        alone = [made.values(make_context(query), [document]) for document in self.documents]
        assert {doc_id: value for values in alone for doc_id, value in values.items()} == together

    def test_an_earlier_request_is_not_noticed(self, made: BaseSignal) -> None:
        made.values(make_context("bowline"), self.documents)
        expected = self.make().values(make_context("honey in bread"), self.documents)
        assert made.values(make_context("honey in bread"), self.documents) == expected


class ExpanderContract(ComponentContract):
    """Derive from it and define :meth:`make`."""

    def make(self) -> BaseExpander:
        """A new expander over ``self.corpus``."""
        raise NotImplementedError

    @pytest.mark.parametrize("limit", [0, 1, 100])
    def test_at_most_the_limit_of_documents_that_the_pool_lacks_each_once(self, made: BaseExpander, limit: int) -> None:
        context = make_context()
        for pool, found in finds(made, context, limit):
            ids = [document.id for document in found]
            assert len(ids) <= limit
            assert len(set(ids)) == len(ids)
            assert not [doc_id for doc_id in ids if doc_id in pool]
            for document in found:
                expected = self.corpus.scored(document.id, 0.0)
                assert (document.content, document.token_count) == (expected.content, expected.token_count)
        assert context.tracker.spent().docs == context.tracker.spent().calls == 0

    def test_another_request_is_not_noticed(self, made: BaseExpander) -> None:
        expected = [found for _, found in finds(self.make(), make_context(), 2)]
        both = zip(finds(made, make_context(), 2), finds(made, make_context(query_id="q2"), 2), strict=True)
        for ((_, mine), (_, others)), alone in zip(both, expected, strict=True):
            assert mine == others == alone


def finds(
    expander: BaseExpander, context: RAGtuneContext, limit: int
) -> Iterator[tuple[CandidatePool, Sequence[ScoredDocument]]]:
    """The documents found after each batch of one document, and the pool before it has grown by them."""
    pool = CandidatePool(small_pool_items()[:5])
    while len(pool.eligible):
        chosen = [pool.doc_ids[pool.eligible[0]]]
        pool.transition(chosen, ItemState.IN_FLIGHT)
        pool.update_scores({doc_id: 1.0 - len(pool.reranked) / 20 for doc_id in chosen}, "default")
        before = pool.columns()
        found = expander.expand(pool, context, limit)
        assert all(old is new for old, new in zip(before, pool.columns(), strict=True)), "it moves no item"
        yield pool, found
        pool.add(PoolItem.from_document(doc, len(pool) + i, {"found": doc.score}) for i, doc in enumerate(found))


class ReformulatorContract(ComponentContract):
    """Derive from it and define :meth:`make`."""

    def make(self) -> BaseReformulator:
        """A new reformulator; what it is given was found in :func:`~ragtune.testing.small_corpus`."""
        raise NotImplementedError

    @pytest.mark.parametrize("query", ["heart pressure", "", "zzyzx", "the of", "Honey, honey!"])
    def test_gives_texts_neither_blank_nor_repeated_and_leaves_the_request_alone(
        self, made: BaseReformulator, query: str
    ) -> None:
        context = make_context(query)
        before = context.tracker.snapshot() | {"latency": 0}
        rewrites = made.generate(context, _found(query))
        assert all(isinstance(text, str) and text.strip() for text in rewrites)
        assert query not in rewrites
        assert len(set(rewrites)) == len(rewrites)
        assert context.query == query
        assert context.tracker.snapshot() | {"latency": 0} == before
        assert isinstance(made.generate(make_context(query), []), list), "nothing may have been found"

    def test_an_earlier_request_is_not_noticed(self, made: BaseReformulator) -> None:
        made.generate(make_context("bowline"), _found("bowline"))
        expected = self.make().generate(make_context("heart"), _found("heart"))
        assert made.generate(make_context("heart"), _found("heart")) == expected

    @pytest.mark.parametrize("m", [1, 3])
    def test_it_is_within_the_price_and_the_number_of_rewrites_wanted(self, made: BaseReformulator, m: int) -> None:
        context = make_context("heart pressure", num_reformulations=m)
        price = made.expected_cost(context, [])
        assert (context.meter.charged, context.meter.actual) == (None, FREE)
        assert len(made.generate(context, [])) <= m
        charged = context.meter.charged or price
        assert all(getattr(charged, unit) <= getattr(price, unit) for unit in ("tokens", "calls", "usd"))
        assert context.meter.actual.tokens <= charged.tokens


def _found(query: str) -> Sequence[ScoredDocument]:
    return BM25Retriever(small_corpus()).retrieve(make_context(query), 10)


def _ranked(ids: str, scale: float = 1.0) -> list[ScoredDocument]:
    """One document a letter, best first, with scores falling (or rising, where ``scale`` is negative) like 1/rank."""
    return [
        ScoredDocument(id=doc_id, content=f"text {doc_id}", score=scale / rank, original_score=scale / rank)
        for rank, doc_id in enumerate(ids, start=1)
    ]


_LISTS = {"a": _ranked("wxyz", 10.0), "b": _ranked("zvw"), "c": _ranked("u", -1.0), "none": []}


class FusionContract(ComponentContract):
    """Derive from it and define :meth:`make`."""

    def make(self) -> BaseFusion:
        """A new fusion of lists with any names."""
        raise NotImplementedError

    def test_keeps_every_document_once_best_first(self, made: BaseFusion) -> None:
        random = Random(0)
        for _ in range(200):
            names = random.sample("abc", random.randint(0, 3))
            lists = {name: "".join(random.sample("pqrstuvwxyz", random.randint(0, 11))) for name in names}
            fused = made.fuse({name: _ranked(ids) for name, ids in lists.items()})
            ids = [doc.id for doc in fused]
            scores = [doc.score for doc in fused]
            assert sorted(ids) == sorted(set("".join(lists.values())))
            assert scores == sorted(scores, reverse=True)
            assert all(math.isfinite(score) for score in scores)

    def test_a_fused_document_names_its_score_and_those_of_every_list(self, made: BaseFusion) -> None:
        for doc in made.fuse(_LISTS):
            assert doc.sources == {name: one.score for name, docs in _LISTS.items() for one in docs if one.id == doc.id}
            assert (doc.fusion_score, doc.content) == (doc.score, f"text {doc.id}")

    def test_equal_scores_are_ordered_by_document_id(self, made: BaseFusion) -> None:
        fused = [(-doc.score, doc.id) for doc in made.fuse({"b": _ranked("zx"), "c": _ranked("yw")})]
        assert fused == sorted(fused)

    def test_answers_the_same_twice(self, made: BaseFusion) -> None:
        assert made.fuse(_LISTS) == made.fuse(_LISTS) == self.make().fuse(_LISTS)

    def test_one_list_keeps_its_order_and_of_a_repeated_document_the_best_rank(self, made: BaseFusion) -> None:
        assert [doc.id for doc in made.fuse({"c": _ranked("zayzbx")})] == list("zaybx")

    def test_nothing_in_nothing_out(self, made: BaseFusion) -> None:
        assert made.fuse({}) == made.fuse({"a": []}) == made.fuse({"a": [], "b": []}) == []


class UnorderedFusionContract(FusionContract):
    """For fusions to which the order of the lists means nothing. Derive from it and define :meth:`make`."""

    def test_the_order_of_the_lists_means_nothing(self, made: BaseFusion) -> None:
        expected = made.fuse(_LISTS)
        for order in itertools.permutations(_LISTS):
            assert made.fuse({key: _LISTS[key] for key in order}) == expected


class EmbedderContract(ComponentContract):
    """Derive from it and define :meth:`make`."""

    def make(self) -> BaseEmbedder:
        """A new embedder; where it must be fitted, to :func:`~ragtune.testing.small_corpus`."""
        raise NotImplementedError

    def test_gives_one_normalised_float32_row_a_text(self, made: BaseEmbedder) -> None:
        vectors = made.embed(small_corpus().contents)
        assert vectors.dtype == np.float32
        assert vectors.shape[0] == len(small_corpus())
        norms = np.linalg.norm(vectors, axis=1)
        assert np.all(np.isclose(norms, 1.0, atol=1e-5) | (norms == 0.0))
        assert made.embed([]).shape == (0, vectors.shape[1])

    def test_a_vector_does_not_depend_on_the_rest_of_the_batch(self, made: BaseEmbedder) -> None:
        texts = small_corpus().contents
        for row, text in zip(made.embed(texts), texts, strict=True):
            np.testing.assert_allclose(made.embed([text])[0], row, atol=1e-5)

    def test_is_deterministic(self, made: BaseEmbedder) -> None:
        texts = small_corpus().contents
        expected = made.embed(texts)
        np.testing.assert_array_equal(made.embed(texts), expected)
        again = self.make()
        np.testing.assert_array_equal(again.embed(texts), expected, "caches keep vectors by the embedder's name")
        assert made.name
        assert made.name == again.name

    def test_like_texts_are_nearer_than_unlike_ones(self, made: BaseEmbedder) -> None:
        corpus = small_corpus()
        query, near, far = made.embed(["blood pressure", corpus["heart-3"].content, corpus["ship-1"].content])
        assert query @ near > query @ far
