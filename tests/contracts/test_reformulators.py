"""What every reformulator promises (``BaseReformulator``)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from experiments.config.paths import CONF
from ragtune.core.interfaces import BaseReformulator
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import FREE
from ragtune.data.corpus import Corpus
from ragtune.llm.client import LLMClient
from ragtune.llm.prompts import PromptLibrary
from ragtune.reformulators.hyde import HydeReformulator
from ragtune.reformulators.identity import IdentityReformulator
from ragtune.reformulators.llm_rewrite import LLMReformulator
from ragtune.reformulators.rm3 import RM3Reformulator
from ragtune.retrievers.bm25 import BM25Retriever

MakeContext = Callable[..., RAGtuneContext]

Factory = Callable[[pytest.FixtureRequest], BaseReformulator]


def _asking(request: pytest.FixtureRequest) -> tuple[LLMClient, PromptLibrary]:
    """A model on a server of this machine and the shipped prompts."""
    client = LLMClient(model="test", base_url=request.getfixturevalue("llm_server").url, mode="live")
    request.addfinalizer(client.close)
    return client, PromptLibrary(CONF / "prompts.yaml")


REFORMULATORS: dict[str, Factory] = {
    "identity": lambda request: IdentityReformulator(),
    "rm3": lambda request: RM3Reformulator(request.getfixturevalue("corpus")),
    "rm3_small": lambda request: RM3Reformulator(
        request.getfixturevalue("corpus"), fb_docs=2, fb_terms=3, min_df=1, resolution=20
    ),
    "llm_rewrite": lambda request: LLMReformulator(*_asking(request)),
    "hyde": lambda request: HydeReformulator(*_asking(request)),
}


@pytest.fixture(params=REFORMULATORS)
def reformulator(request: pytest.FixtureRequest) -> BaseReformulator:
    return REFORMULATORS[request.param](request)


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


def test_asking_the_price_pays_nothing_and_the_true_cost_is_within_it(
    reformulator: BaseReformulator, make_context: MakeContext
) -> None:
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
def test_gives_no_more_than_are_wanted(reformulator: BaseReformulator, make_context: MakeContext, m: int) -> None:
    context = make_context("heart pressure", num_reformulations=m)
    assert len(reformulator.generate(context, [])) <= m
