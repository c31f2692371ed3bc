"""What every signal promises (:class:`~ragtune.core.interfaces.BaseSignal`)."""

from __future__ import annotations

import math

import pytest

from ragtune.core.interfaces import BaseSignal
from ragtune.core.types import ScoredDocument
from ragtune.data.corpus import Corpus
from ragtune.testing.collection import make_context, small_corpus
from ragtune.testing.files import require_declared_files
from ragtune.testing.retrievers import QUERIES


class SignalContract:
    """Derive from it and define :meth:`make`.

    Attributes:
        corpus: what the documents are of.
    """

    @property
    def corpus(self) -> Corpus:
        return small_corpus()

    @property
    def documents(self) -> list[ScoredDocument]:
        """What a first stage has found: the collection in its order, with falling scores."""
        return [self.corpus.scored(doc_id, 1.0 / rank) for rank, doc_id in enumerate(self.corpus.doc_ids, start=1)]

    def make(self) -> BaseSignal:
        """A new signal for ``self.documents``."""
        raise NotImplementedError

    @pytest.fixture
    def signal(self) -> BaseSignal:
        signal = self.make()
        signal.prepare()
        return signal

    @pytest.fixture(params=QUERIES)
    def query(self, request: pytest.FixtureRequest) -> str:
        return QUERIES[request.param]

    def test_files_that_it_is_given_are_declared(self) -> None:
        require_declared_files(self.make)

    def test_values_are_finite_numbers_of_the_given_documents(self, signal: BaseSignal, query: str) -> None:
        some = self.documents[2:9]
        values = signal.values(make_context(query), some)
        assert values.keys() <= {document.id for document in some}
        assert all(math.isfinite(value) for value in values.values())

    def test_knows_something_of_what_a_query_is_about(self, signal: BaseSignal) -> None:
        assert len(set(signal.values(make_context("honey in bread"), self.documents).values())) > 1

    def test_a_documents_value_depends_on_no_other_document(self, signal: BaseSignal, query: str) -> None:
        together = dict(signal.values(make_context(query), self.documents))
        assert dict(signal.values(make_context(query), self.documents[::-1])) == together
        alone = [signal.values(make_context(query), [document]) for document in self.documents]
        assert {doc_id: value for values in alone for doc_id, value in values.items()} == together

    def test_no_documents_have_no_values(self, signal: BaseSignal, query: str) -> None:
        assert not signal.values(make_context(query), [])

    def test_an_earlier_request_is_not_noticed(self, signal: BaseSignal) -> None:
        signal.values(make_context("bowline"), self.documents)
        fresh = self.make()
        expected = fresh.values(make_context("honey in bread"), self.documents)
        assert signal.values(make_context("honey in bread"), self.documents) == expected
