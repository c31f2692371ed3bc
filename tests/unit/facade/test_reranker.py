"""The facade: candidates in, ranking out."""

import argparse
import asyncio
import inspect
import pickle
from collections.abc import Sequence
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from overlap import QUERY, TEXTS, Spy, check, make, overlap, seen

from ragtune import BudgetedReranker
from ragtune.cli.commands.ranker import add_rerank_options
from ragtune.core.errors import ConfigError, InputError
from ragtune.core.units import ENERGY, FLOPS, SEARCH_UNITS, UNITS
from ragtune.facade.models import reranker_for
from ragtune.facade.ranking import Ranking
from ragtune.facade.reranker import Job
from ragtune.rerankers.function import FunctionReranker
from ragtune.services.payloads import Budget


def test_a_ranking_shows_itself_in_a_line_and_as_an_escaped_table() -> None:
    ranking = BudgetedReranker(overlap, docs=2, batch_size=1).rank(QUERY, ["<b>bread</b>", *TEXTS])
    assert repr(ranking) == f"Ranking({len(TEXTS) + 1} documents, 2 scored in 2 calls)"
    shown = ranking._repr_html_()
    assert (shown.count("<tr>"), shown.count("estimate")) == (10, 7)
    assert "&lt;b&gt;bread" in shown


@pytest.mark.parametrize("query", [None, 5, b"bread", "\ud800"])
def test_a_query_that_is_no_text_is_refused(query: Any) -> None:
    for act in (make().rank, lambda *given: make().rank_many([given])):
        with pytest.raises(InputError, match="query"):
            act(query, TEXTS)


@pytest.mark.parametrize("top_k", [0, -1, 2.5, "3"])
def test_a_bad_top_k_is_refused_before_anything_is_read(top_k: Any) -> None:
    spy = Spy()
    reranker = make(spy)
    with pytest.raises(ConfigError, match="top_k="):
        reranker.rank(QUERY, TEXTS, top_k=top_k)
    with pytest.raises(ConfigError, match="top_k="):
        reranker.rank_many([(QUERY, TEXTS)], top_k=top_k)
    assert spy.calls == []


@pytest.mark.parametrize("job", ["a query", (), ("q",), (QUERY, TEXTS, *[None] * 5), 5, {"query": QUERY}])
def test_a_job_that_is_none_is_named(job: Any) -> None:
    with pytest.raises(InputError, match="job 1"):
        make().rank_many([(QUERY, TEXTS), job])


def test_nothing_to_rank_and_equal_texts() -> None:
    nothing = make().rank(QUERY, [])
    assert (len(nothing), nothing.cost.docs, nothing.saved.docs) == (0, 0, 0)
    equal = make().rank(QUERY, ["bread"] * 6)
    check(equal, 6)
    assert equal.cost.docs == 4


@pytest.mark.parametrize(
    ("limits", "unit", "most"),
    [
        ({"docs": 3}, "docs", 3),
        ({"calls": 2}, "calls", 2),
        ({"tokens": 25}, "tokens", 25),
        ({"usd": 0.05, "usd_per_doc": 0.01}, "usd", 0.05),
        ({"docs": 5, "calls": 1}, "calls", 1),
    ],
)
def test_every_unit_of_a_budget_binds(limits: dict[str, Any], unit: str, most: float) -> None:
    ranking = make(**limits).rank(QUERY, TEXTS)
    check(ranking, len(TEXTS))
    assert 0 < ranking.cost.docs < len(TEXTS)
    assert 0 < getattr(ranking.cost, unit) <= most + 1e-9
    assert ranking.stop is not None
    assert ranking.cost.docs + ranking.saved.docs == len(TEXTS)
    assert ranking.saved.calls == 1


def test_a_query_may_have_a_budget_of_its_own() -> None:
    reranker = make(docs=6)
    own = {"docs": 2, "calls": None}
    assert reranker.rank(QUERY, TEXTS, budget=own).cost.docs == 2
    assert [ranking.cost.docs for ranking in reranker.rank_many([(QUERY, TEXTS)] * 2, budget=own)] == [2, 2]
    assert reranker.rank(QUERY, TEXTS).cost.docs == 6


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        ({}, "no budget given: name at least one of docs, calls, tokens, ms, usd, flops, search_units, joules"),
        ({"documents": 3}, "unknown limit 'documents'"),
        ({"docs": -1}, "docs=-1"),
        ({"ms": float("nan")}, "ms=nan"),
        (5, "budget=5"),
    ],
)
def test_a_budget_that_is_none_is_named(budget: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make().rank(QUERY, TEXTS, budget=budget)


@pytest.mark.parametrize(
    ("model", "options", "said"),
    [
        (overlap, {}, "no budget given"),
        (overlap, {"docs": 1, "policy": "best"}, "policy='best'"),
        (overlap, {"docs": 1, "batch_size": 0}, "batch_size=0"),
        (overlap, {"docs": 1, "doubts": 3}, "doubts=3: allowed is a Doubts"),
        (overlap, {"docs": 1, "trust": 2}, "trust=2: allowed is a number in"),
        (overlap, {"docs": 1, "trust": "auto", "policy": "fixed_depth"}, "policy='fixed_depth' takes trust=0.5 only"),
        (overlap, {"docs": 1, "scale": "percent"}, "percent"),
        (overlap, {"docs": 1, "device": "cpu"}, "device"),
        (5, {"docs": 1}, "a reranker of type int"),
        (FunctionReranker(overlap), {"docs": 1, "scale": "logit"}, "has its options already: scale"),
    ],
)
def test_a_reranker_that_cannot_be_made_says_why(model: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        BudgetedReranker(model, **options)


SCORES = st.lists(st.floats(0.0, 1.0), min_size=0, max_size=9)


@settings(max_examples=10, deadline=None)
@given(tables=st.lists(SCORES, min_size=1, max_size=5), docs=st.integers(0, 9), width=st.integers(1, 6))
@pytest.mark.parametrize("policy", ["uncertainty", "settled", "early_stop", "fixed_depth", "interpolated_fixed_depth"])
def test_every_way_to_ask_gives_the_same_ranking(policy: str, tables: list[list[float]], docs: int, width: int) -> None:
    def scored(query: str, texts: Sequence[str]) -> list[float]:
        return [tables[int(query)][int(text.split()[0])] for text in texts]

    reranker = make(scored, docs=docs, policy=policy)
    jobs = [Job(str(q), [f"{i} of {i % 3}" for i in range(len(table))]) for q, table in enumerate(tables)]
    alone = [reranker.rank(*job[:3]) for job in jobs]
    for ranking, table in zip(alone, tables, strict=True):
        check(ranking, len(table))
        assert ranking.cost.docs <= docs
    assert [seen(ranking) for ranking in reranker.rank_many(jobs, width=width)] == [seen(one) for one in alone]


def test_asyncio_gets_the_same_ranking() -> None:
    async def both() -> list[Ranking]:
        reranker = make()
        return await asyncio.gather(*(reranker.arank(QUERY, TEXTS, top_k=3) for _ in range(4)))

    assert [seen(ranking) for ranking in asyncio.run(both())] == [seen(make().rank(QUERY, TEXTS, top_k=3))] * 4


def test_a_ranking_is_a_sequence_and_top_k_cuts_it() -> None:
    ranking, cut = make().rank(QUERY, TEXTS), make().rank(QUERY, TEXTS, top_k=3)
    assert len(ranking) == len(TEXTS)
    assert seen(cut) == [(d.index, d.score, d.reranker_score) for d in ranking[:3]]
    assert (cut.cost.docs, cut.saved.docs) == (ranking.cost.docs, ranking.saved.docs)
    assert ranking[-1] is list(ranking)[-1]


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda query, texts: [3.2 for _ in texts], "the reranking function returned .*3.2"),
        (lambda query, texts: [0.5], "the reranking function returned 1 scores for 2 texts"),
        (lambda query, texts: ["good" for _ in texts], "the reranking function returned"),
        (lambda query, texts: dict.fromkeys(range(len(texts)), 0.5), "allowed is one number a text"),
        (lambda query, texts: "01", "allowed is one number a text"),
    ],
    ids=["logits without a scale", "too few", "words", "by index", "a text"],
)
def test_a_function_that_returns_no_scores_is_refused_in_one_line(function: Any, said: str) -> None:
    for act in (lambda: make(function).rank(QUERY, TEXTS), lambda: make(function).rank_many([(QUERY, TEXTS)] * 2)):
        with pytest.raises(ConfigError, match=said) as refused:
            act()
        assert "\n" not in str(refused.value)
    assert make(lambda query, texts: [3.2 for _ in texts], scale="logit").rank(QUERY, TEXTS).cost.docs == 4


def test_every_unit_is_a_limit_at_every_door() -> None:
    names = {unit.short for unit in UNITS}
    assert names <= set(inspect.signature(BudgetedReranker).parameters)
    assert set(Budget.model_fields) == names
    parser = argparse.ArgumentParser()
    add_rerank_options(parser)
    assert names <= set(vars(parser.parse_args([])))
    for unit in (FLOPS, SEARCH_UNITS, ENERGY):
        with pytest.raises(ConfigError, match=f"{unit.short}=3: the reranker has no price"):
            BudgetedReranker(overlap, docs=5, **{unit.short: 3})


def test_a_limit_in_dollars_wants_a_price() -> None:
    def equal(query: str, texts: list[str]) -> list[float]:
        return [0.5] * len(texts)

    with pytest.raises(ConfigError, match=r"usd=0\.01: the reranker has no price"):
        BudgetedReranker(equal, usd=0.01)
    unpriced = BudgetedReranker(equal, docs=2)
    with pytest.raises(ConfigError, match=r"usd=0\.5: the reranker has no price"):
        unpriced.rank("query", TEXTS, budget={"usd": 0.5})
    with pytest.raises(ConfigError, match=r"flops=1e\+09: the reranker has no price, .* in FLOPs .*architecture"):
        unpriced.rank("query", TEXTS, budget={"flops": 1e9})
    priced = BudgetedReranker(equal, usd=0.02, batch_size=1, usd_per_doc=0.01)
    assert priced.rank("query", TEXTS).cost.docs == 2
    assert BudgetedReranker("http://localhost:1/rerank", usd=0.01, usd_per_search_unit=0.002)


@pytest.mark.parametrize(
    ("options", "meant"),
    [({"doc": 3}, "docs"), ({"docs": 3, "polcy": "gar"}, "policy"), ({"docs": 3, "batchsize": 2}, "batch_size")],
)
def test_an_unknown_option_is_named_with_what_may_have_been_meant(options: dict[str, Any], meant: str) -> None:
    (unknown,) = options.keys() - {"docs"}
    with pytest.raises(ConfigError, match=f"unknown option '{unknown}'.*did you mean {meant}\\?"):
        BudgetedReranker(lambda query, texts: [1.0] * len(texts), **options)


def test_a_ranking_travels_with_what_it_saved() -> None:
    ranking = BudgetedReranker(overlap, docs=2).rank(QUERY, TEXTS)
    travelled = pickle.loads(pickle.dumps(ranking))
    assert travelled == ranking
    assert travelled.saved == ranking.saved
    assert ranking.saved.docs == len(TEXTS) - 2


def test_a_reranking_function_may_return_a_series() -> None:
    own = reranker_for(lambda query, texts: pd.Series(overlap(query, texts)), {})
    assert make(own).rank(QUERY, TEXTS).documents == make().rank(QUERY, TEXTS).documents
