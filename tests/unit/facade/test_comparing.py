"""The facade with policies that compare: windows of documents, a window a call."""

import argparse
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from ragtune import BudgetedReranker
from ragtune.cli.commands.ranker import add_rerank_options
from ragtune.core.errors import ConfigError
from ragtune.facade.models import language_model
from ragtune.facade.policies import POLICIES, policy_named
from ragtune.rerankers.ordering import OrderingReranker

WORTH = np.random.default_rng(3).permutation(40)
TEXTS = [f"text {i} of {WORTH[i]}" for i in range(40)]
BEST = int(WORTH.argmax())
COMPARING = [name for name in POLICIES if policy_named(name).compares]


def worth(query: str, texts: Sequence[str]) -> list[float]:
    return [int(text.split()[-1]) / 40 for text in texts]


class Judge:
    """Orders texts by their worth, or names the first ones of that order."""

    def __init__(self, told: int | None = None) -> None:
        self.windows: list[int] = []
        self._told = told

    def __call__(self, query: str, texts: list[str]) -> list[int]:
        self.windows.append(len(texts))
        known = worth(query, texts)
        return sorted(range(len(texts)), key=lambda i: -known[i])[: self._told]


def test_all_that_compare_have_a_name_and_the_command_line_tells_it() -> None:
    assert len(COMPARING) == 12
    parser = argparse.ArgumentParser()
    add_rerank_options(parser)
    (policy,) = (action for action in parser._actions if action.dest == "policy")
    assert set(re.findall(r"\w+", policy.help or "")) >= set(POLICIES)


@pytest.mark.parametrize(("policy", "docs"), [("knockout", 5), ("realm", 20), ("tourrank", 20), ("tourrank", 39)])
def test_a_budget_within_the_first_round_is_warned_of_with_one_that_is_enough(policy: str, docs: int) -> None:
    (said,) = BudgetedReranker(worth, policy=policy, docs=docs).rank("q", TEXTS).warnings
    named = re.search(r"smallest useful budget is (\d+) documents in \d+ calls: docs=(\d+)$", said)
    assert docs < int(named[1]) == int(named[2])
    assert BudgetedReranker(worth, policy=policy, docs=int(named[1])).rank("q", TEXTS).warnings == []


@pytest.mark.parametrize("limits", [{"docs": 20}, {"calls": 5}, {"docs": 20, "calls": 1}])
def test_failures_that_end_the_first_round_are_no_reason_for_a_larger_budget(limits: dict[str, int]) -> None:
    def down(query: str, texts: Sequence[str]) -> list[float]:
        raise RuntimeError("down")

    said = BudgetedReranker(down, policy="tourrank", **limits).rank("q", TEXTS[:20]).warnings
    assert not any("smallest useful budget" in warning for warning in said)


@pytest.mark.parametrize("policy", COMPARING)
def test_a_policy_by_name_asks_as_often_as_the_budget_says_and_lifts_what_wins(policy: str) -> None:
    judge = Judge()
    ranking = BudgetedReranker(OrderingReranker(judge), policy=policy, calls=6).rank("q", TEXTS)
    assert 0 < len(judge.windows) == ranking.cost.calls <= 6
    assert ranking.cost.docs == sum(judge.windows)
    assert sorted(one.index for one in ranking) == list(range(40))
    assert all(one.estimated or one.score == one.reranker_score for one in ranking)
    assert all("smallest useful budget" in warning for warning in ranking.warnings)
    without = BudgetedReranker(OrderingReranker(Judge()), policy=policy, calls=0).rank("q", TEXTS)
    assert [one.index for one in without] == list(range(40))
    many = BudgetedReranker(OrderingReranker(Judge()), policy=policy, calls=600).rank("q", TEXTS)
    assert BEST in [one.index for one in many][:10]  # not all of them put the top in order
    assert many.cost.calls < 600


@pytest.mark.parametrize("policy", COMPARING)
def test_scores_order_a_window_as_a_comparison_does(policy: str) -> None:
    compared, scored = (
        BudgetedReranker(model, policy=policy, calls=5).rank("q", TEXTS) for model in (OrderingReranker(Judge()), worth)
    )
    assert [one.index for one in compared] == [one.index for one in scored]


@pytest.mark.parametrize("policy", ["plackett_luce", "sliding", "tdpart", "jointrank", "acurank", "realm"])
def test_the_batch_size_is_that_of_windows(policy: str) -> None:
    judge = Judge()
    BudgetedReranker(OrderingReranker(judge), policy=policy, calls=4, batch_size=8).rank("q", TEXTS)
    assert max(judge.windows) == 8


@pytest.mark.parametrize(
    "returned", [[0, 0], [0, 5], [-1], [0.5], ["0"], {0: 1.0}, {0, 1}, "01", None, 1, [True], [[0]]]
)
def test_what_is_no_order_is_named(returned: Any) -> None:
    reranker = BudgetedReranker(OrderingReranker(lambda query, texts: returned), policy="fixed_depth", docs=3)
    with pytest.raises(ConfigError, match=r"the ordering function returned .* for 3 texts: allowed are positions from"):
        reranker.rank("q", TEXTS)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"policy": "knockout", "batch_size": 4}, "batch_size=4: allowed is None, policy 'knockout' has its own"),
        ({"policy": "tdpart", "batch_size": 1}, "batch_size=1"),
        ({"policy": "plackett_luce", "trust": 2.0}, "trust=2.0"),
        ({"policy": "placket_luce"}, "policy='placket_luce': allowed are uncertainty, .*, knockout.*plackett_luce"),
    ],
)
def test_bad_choices_are_named(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        BudgetedReranker(OrderingReranker(Judge()), calls=3, **options)


def test_an_ordering_that_is_no_function_is_named() -> None:
    with pytest.raises(ConfigError, match=r"function=3: allowed is a function \(query, texts\) -> positions"):
        OrderingReranker(3)  # type: ignore[arg-type]


def test_batches_that_failed_have_compared_nothing_apart() -> None:
    def dead(query: str, texts: list[str]) -> list[int]:
        raise ConnectionError("away")

    ranking = BudgetedReranker(OrderingReranker(dead), docs=10).rank("q", TEXTS)
    assert ranking.batches.sent > 1
    assert not ranking.is_torn
    assert not any("compared" in words for words in ranking.warnings)


def test_places_in_batches_that_share_no_document_are_warned_of() -> None:
    def said(model: Any, **options: Any) -> list[str]:
        return BudgetedReranker(model, **options).rank("q", TEXTS).warnings

    (torn,) = said(OrderingReranker(Judge()), docs=10)
    assert torn.startswith("documents were compared in batches that share no document")
    assert torn.endswith("take a policy that compares, or fixed_depth")
    for fits in ({"docs": 5}, {"docs": 10, "policy": "fixed_depth"}, {"calls": 3, "policy": "plackett_luce"}):
        assert said(OrderingReranker(Judge()), **fits) == []
    assert said(worth, docs=10) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"how": "pairwise"}, "how a language model compares='pairwise': allowed are listwise, setwise"),
        ({"usd_per_1k_tokens": -1.0}, "usd_per_1k_tokens=-1.0"),
        ({"window": 1}, "reranker window=1"),
        ({"base_url": "ftp://x"}, "base_url"),
        ({"tempature": 0.0}, "the language model cannot be made: .*'tempature'"),
    ],
)
def test_a_language_model_that_cannot_be_made_is_named(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        language_model("test", **options)
