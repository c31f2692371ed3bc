"""What every reformulator promises (``BaseReformulator``)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ragtune.core.context import RAGtuneContext
from ragtune.core.corpus import Corpus
from ragtune.core.interfaces import BaseReformulator
from ragtune.reformulators.identity import IdentityReformulator
from ragtune.reformulators.rm3 import RM3Reformulator
from ragtune.retrievers.bm25 import BM25Retriever

MakeContext = Callable[..., RAGtuneContext]

REFORMULATORS: dict[str, Callable[[Corpus], BaseReformulator]] = {
    "identity": lambda corpus: IdentityReformulator(),
    "rm3": RM3Reformulator,
    "rm3_small": lambda corpus: RM3Reformulator(corpus, fb_docs=2, fb_terms=3, min_df=1, resolution=20),
}


@pytest.fixture(params=REFORMULATORS)
def reformulator(request: pytest.FixtureRequest, corpus: Corpus) -> BaseReformulator:
    return REFORMULATORS[request.param](corpus)


@pytest.mark.parametrize("query", ["heart pressure", "", "zzyzx", "the of", "Honey, honey!"])
def test_gives_texts_none_of_them_blank(
    reformulator: BaseReformulator, corpus: Corpus, make_context: MakeContext, query: str
) -> None:
    context = make_context(query)
    rewrites = reformulator.generate(context, BM25Retriever(corpus).retrieve(context, 10))
    assert all(isinstance(text, str) and text.strip() for text in rewrites)


def test_never_repeats_the_original_or_itself(
    reformulator: BaseReformulator, corpus: Corpus, make_context: MakeContext
) -> None:
    context = make_context("heart pressure")
    rewrites = reformulator.generate(context, BM25Retriever(corpus).retrieve(context, 10))
    assert context.query not in rewrites
    assert len(set(rewrites)) == len(rewrites)


def test_answers_the_same_twice(reformulator: BaseReformulator, corpus: Corpus, make_context: MakeContext) -> None:
    first_round = BM25Retriever(corpus).retrieve(make_context("heart"), 10)
    answers = [reformulator.generate(make_context("heart"), first_round) for _ in range(2)]
    assert answers[0] == answers[1]


def test_works_when_nothing_was_found(reformulator: BaseReformulator, make_context: MakeContext) -> None:
    assert isinstance(reformulator.generate(make_context("heart"), []), list)


def test_leaves_the_request_alone(reformulator: BaseReformulator, corpus: Corpus, make_context: MakeContext) -> None:
    context = make_context("heart")
    before = context.tracker.snapshot() | {"latency": 0}
    reformulator.generate(context, BM25Retriever(corpus).retrieve(context, 10))
    assert context.query == "heart"
    assert context.tracker.snapshot() | {"latency": 0} == before
