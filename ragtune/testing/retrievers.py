"""What every retriever promises (:class:`~ragtune.core.interfaces.BaseRetriever`)."""

from __future__ import annotations

import math

import pytest

from ragtune.core.interfaces import BaseRetriever
from ragtune.data.corpus import Corpus
from ragtune.testing.collection import make_context, small_corpus
from ragtune.testing.files import require_declared_files

QUERIES = {
    "known": "how does heart pressure rise",
    "unknown_words": "zzyzx qwrtp",
    "empty": "",
    "stopwords": "the of and",
    "punctuation": "?!",
    "duplicated_text": "knead the loaves",
    "repeated": "honey honey honey tea",
    "unicode": "café ☕ 茶",
}


class RetrieverContract:
    """Derive from it and define :meth:`make`.

    Attributes:
        corpus: what the retriever searches.
    """

    @property
    def corpus(self) -> Corpus:
        return small_corpus()

    def make(self) -> BaseRetriever:
        """A new retriever over ``self.corpus``."""
        raise NotImplementedError

    @pytest.fixture
    def retriever(self) -> BaseRetriever:
        return self.make()

    @pytest.fixture(params=QUERIES)
    def query(self, request: pytest.FixtureRequest) -> str:
        return QUERIES[request.param]

    def test_files_that_it_is_given_are_declared(self) -> None:
        require_declared_files(self.make)

    @pytest.mark.parametrize("top_k", [1, 3, 1000])
    def test_returns_at_most_top_k_documents_of_the_corpus_each_once(
        self, retriever: BaseRetriever, query: str, top_k: int
    ) -> None:
        ids = [doc.id for doc in retriever.retrieve(make_context(query), top_k)]
        assert len(ids) <= min(top_k, len(self.corpus))
        assert len(set(ids)) == len(ids)
        assert all(doc_id in self.corpus for doc_id in ids)

    def test_is_sorted_by_finite_scores(self, retriever: BaseRetriever, query: str) -> None:
        scores = [doc.score for doc in retriever.retrieve(make_context(query), 100)]
        assert all(math.isfinite(score) for score in scores)
        assert scores == sorted(scores, reverse=True)

    def test_breaks_ties_by_document_id(self, retriever: BaseRetriever, query: str) -> None:
        found = [(-doc.score, doc.id) for doc in retriever.retrieve(make_context(query), 100)]
        assert found == sorted(found)

    def test_a_smaller_top_k_is_a_prefix(self, retriever: BaseRetriever, query: str) -> None:
        many = [(doc.id, doc.score) for doc in retriever.retrieve(make_context(query), 3)]
        few = [(doc.id, doc.score) for doc in retriever.retrieve(make_context(query), 1)]
        assert few == many[:1]

    def test_answers_the_same_twice(self, retriever: BaseRetriever, query: str) -> None:
        assert retriever.retrieve(make_context(query), 5) == retriever.retrieve(make_context(query), 5)

    def test_an_earlier_request_is_not_noticed(self, retriever: BaseRetriever) -> None:
        retriever.retrieve(make_context("bowline"), 5)
        expected = self.make().retrieve(make_context("honey in bread"), 5)
        assert retriever.retrieve(make_context("honey in bread"), 5) == expected

    def test_answers_the_same_when_built_anew(self) -> None:
        answers = [self.make().retrieve(make_context("honey in bread"), 5) for _ in range(2)]
        assert answers[0] == answers[1]

    def test_documents_carry_what_the_pool_needs(self, retriever: BaseRetriever) -> None:
        found = retriever.retrieve(make_context("heart"), 5)
        assert found
        for doc in found:
            assert doc.content == self.corpus[doc.id].content
            assert doc.token_count == self.corpus.scored(doc.id, 0.0).token_count

    def test_finds_the_document_that_the_query_is_about(self, retriever: BaseRetriever) -> None:
        assert "ship-1" in [doc.id for doc in retriever.retrieve(make_context("bowline"), 1)]
