"""What every reformulator promises (:class:`~ragtune.core.interfaces.BaseReformulator`)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ragtune.core.interfaces import BaseReformulator
from ragtune.core.types import FREE, ScoredDocument
from ragtune.retrievers.bm25 import BM25Retriever
from ragtune.testing.collection import make_context, small_corpus
from ragtune.testing.files import require_declared_files


class ReformulatorContract:
    """Derive from it and define :meth:`make`."""

    def make(self) -> BaseReformulator:
        """A new reformulator; what it is given was found in :func:`~ragtune.testing.small_corpus`."""
        raise NotImplementedError

    @pytest.fixture
    def reformulator(self) -> BaseReformulator:
        return self.make()

    def test_files_that_it_is_given_are_declared(self) -> None:
        require_declared_files(self.make)

    @pytest.mark.parametrize("query", ["heart pressure", "", "zzyzx", "the of", "Honey, honey!"])
    def test_gives_texts_none_of_them_blank(self, reformulator: BaseReformulator, query: str) -> None:
        rewrites = reformulator.generate(make_context(query), _found(query))
        assert all(isinstance(text, str) and text.strip() for text in rewrites)

    def test_never_repeats_the_original_or_itself(self, reformulator: BaseReformulator) -> None:
        context = make_context("heart pressure")
        rewrites = reformulator.generate(context, _found("heart pressure"))
        assert context.query not in rewrites
        assert len(set(rewrites)) == len(rewrites)

    def test_answers_the_same_twice(self, reformulator: BaseReformulator) -> None:
        answers = [
            made.generate(make_context("heart"), _found("heart")) for made in (reformulator, reformulator, self.make())
        ]
        assert answers[0] == answers[1] == answers[2]

    def test_an_earlier_request_is_not_noticed(self, reformulator: BaseReformulator) -> None:
        reformulator.generate(make_context("bowline"), _found("bowline"))
        expected = self.make().generate(make_context("heart"), _found("heart"))
        assert reformulator.generate(make_context("heart"), _found("heart")) == expected

    def test_works_when_nothing_was_found(self, reformulator: BaseReformulator) -> None:
        assert isinstance(reformulator.generate(make_context("heart"), []), list)

    def test_leaves_the_request_alone(self, reformulator: BaseReformulator) -> None:
        context = make_context("heart")
        before = context.tracker.snapshot() | {"latency": 0}
        reformulator.generate(context, _found("heart"))
        assert context.query == "heart"
        assert context.tracker.snapshot() | {"latency": 0} == before

    def test_asking_the_price_pays_nothing_and_the_true_cost_is_within_it(self, reformulator: BaseReformulator) -> None:
        context = make_context("heart pressure")
        price = reformulator.expected_cost(context, [])
        assert (context.meter.charged, context.meter.actual) == (None, FREE)
        reformulator.generate(context, [])
        charged = context.meter.charged or price
        assert charged.tokens <= price.tokens
        assert charged.calls <= price.calls
        assert charged.usd <= price.usd
        assert context.meter.actual.tokens <= charged.tokens

    @pytest.mark.parametrize("m", [1, 3])
    def test_gives_no_more_than_are_wanted(self, reformulator: BaseReformulator, m: int) -> None:
        context = make_context("heart pressure", num_reformulations=m)
        assert len(reformulator.generate(context, [])) <= m


def _found(query: str) -> Sequence[ScoredDocument]:
    """What a first round finds."""
    return BM25Retriever(small_corpus()).retrieve(make_context(query), 10)
