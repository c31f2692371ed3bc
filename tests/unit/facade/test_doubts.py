"""The library says where sources seem to know better than its reranker, and only there."""

import copy
import pickle
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from ragtune import BudgetedReranker
from ragtune.core.errors import ConfigError
from ragtune.facade.doubts import SOURCES, Doubts, RerankerDoubtWarning

DOCS = 12
Request = tuple[str, list[str], dict[str, list[float]], list[float]]


def requests(seed: int, count: int, heard: Callable[[Any, Any], Any], size: int = DOCS) -> Iterator[Request]:
    """Queries with two sources that err alike, and the reranker's scores: ``heard(relevance, noise)`` as logits."""
    rng = np.random.default_rng(seed)
    for query in range(count):
        relevance, *noise = rng.normal(size=(4, size))
        sources = {name: (relevance + 0.7 * own).tolist() for name, own in zip("ab", noise, strict=False)}
        scores = 1.0 / (1.0 + np.exp(-heard(relevance, noise[2])))
        yield f"q{query}", [f"q{query} d{i}" for i in range(size)], sources, scores.tolist()


def told(asked: Iterator[Request], **options: Any) -> tuple[list[str], BudgetedReranker]:
    known: dict[str, float] = {}
    reranker = BudgetedReranker(lambda query, texts: [known[text] for text in texts], **({"docs": DOCS} | options))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for query, texts, sources, scores in asked:
            known.update(zip(texts, scores, strict=True))
            reranker.rank(query, texts, sources)
    assert all(warning.category is RerankerDoubtWarning for warning in caught)
    return [str(warning.message) for warning in caught], reranker


def opposed(relevance: Any, noise: Any) -> Any:
    return -relevance


def test_a_reranker_that_opposes_two_sources_that_agree_is_told_of_once_a_source_with_what_was_seen() -> None:
    said, reranker = told(requests(0, 40, opposed))
    assert [words.partition(" agrees ")[0] for words in said] == ["the source 'a'", "the source 'b'"]
    for words in said:
        assert "more than chance (by +1." in words
        assert "over 13 requests, p = .0" in words
        assert words.endswith("see trust (0 follows the sources, 1 the reranker)")
    evidence = reranker.doubts.evidence["a"]
    assert (evidence.requests, evidence.mean > 1.0) == (40, True)


@pytest.mark.parametrize("policy", ["uncertainty", "settled"])
def test_a_good_reranker_raises_no_doubt(policy: str) -> None:
    said, reranker = told(requests(0, 60, lambda relevance, noise: relevance + 0.3 * noise), policy=policy, docs=10)
    assert said == []
    assert reranker.doubts.evidence["a"].mean < 0.0


@pytest.mark.parametrize(("docs", "is_told"), [(5, False), (60, True)])
def test_a_margin_below_zero_is_no_praise_where_little_is_read_even_of_noise(docs: int, is_told: bool) -> None:
    said, reranker = told(requests(0, 60, lambda relevance, noise: noise, size=100), docs=docs)
    assert bool(said) is is_told
    assert [one.mean > 0.0 for one in reranker.doubts.evidence.values()] == [is_told] * 2


def test_chance_is_no_doubt_however_often_one_looks() -> None:
    doubted = []
    for seed in range(300):
        heard: list[str] = []
        doubts = Doubts(heard.append)
        for query, (one, other) in enumerate(np.random.default_rng(seed).normal(scale=0.3, size=(120, 2)).tolist()):
            doubts.hear(str(query), {"a": one, "b": other})
        doubted.append(bool(heard))
    assert sum(doubted) / len(doubted) < 0.05


def test_nothing_is_said_with_one_source_or_by_a_policy_that_compares_none() -> None:
    asked = [(query, texts, {"a": sources["a"]}, scores) for query, texts, sources, scores in requests(0, 20, opposed)]
    assert told(iter(asked))[1].doubts.evidence == {}
    assert told(requests(0, 20, opposed), policy="fixed_depth")[1].doubts.evidence == {}


def test_a_query_that_comes_again_counts_once() -> None:
    doubts = Doubts(pytest.fail)
    for _ in range(1000):
        doubts.hear("ping", {"a": 0.5, "b": 0.5})
    assert doubts.evidence["a"].requests == 1


def test_trust_follows_the_latest_correlation_of_a_query_that_comes_again() -> None:
    """A program with few questions gets its trust back once the reranker behind an address is replaced."""
    doubts = Doubts(pytest.fail)
    for correlation, trust in ((0.0, 0.0), (0.4, 0.5)):
        for query in range(40):
            doubts.hear(str(query), {}, correlation)
        assert doubts.trust() == trust
    for _ in range(1000):
        doubts.hear("ping", {}, -1.0)
    assert doubts.trust() == 0.5, "a health check counts once"


def test_memory_is_bounded_whatever_clients_call_their_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragtune.facade.doubts._REMEMBERED", 50)
    doubts = Doubts(pytest.fail)
    for query in range(200):
        doubts.hear(str(query), {f"s{query}": -0.1, "a": -0.1})
    assert len(doubts.evidence) == SOURCES
    assert len(doubts._queries) == 50
    assert doubts.evidence["a"].requests == 200


def test_threads_lose_no_request_and_tell_once() -> None:
    heard: list[str] = []
    doubts = Doubts(heard.append)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda query: doubts.hear(str(query), {"a": 0.3, "b": -0.3}), range(400)))
    assert {name: one.requests for name, one in doubts.evidence.items()} == {"a": 400, "b": 400}
    assert len(heard) == 1


def test_a_reranker_with_its_doubts_can_be_copied_and_sent() -> None:
    _, reranker = told(requests(0, 3, opposed))
    seen = reranker.doubts.evidence
    assert copy.deepcopy(reranker).doubts.evidence == seen
    assert pickle.loads(pickle.dumps(reranker.doubts)).evidence == seen


@pytest.mark.parametrize(("sign", "trust"), [(1.0, 0.5), (-1.0, 0.0)])
def test_trust_auto_follows_what_the_requests_show(sign: float, trust: float) -> None:
    def model(query: str, texts: list[str]) -> list[float]:
        return [0.5 + sign * (0.4 - 0.05 * int(text)) for text in texts]

    reranker = BudgetedReranker(model, docs=8, trust="auto")
    texts = [str(i) for i in range(12)]
    rankings = [[document.index for document in reranker.rank(f"query {i}", texts, top_k=3)] for i in range(31)]
    assert reranker.doubts.trust() == trust
    assert rankings[-1] == [0, 1, 2], "of a reranker that contradicts the first stage nothing is left"
    assert (rankings[0] == rankings[-1]) == (sign > 0)


def test_a_word_other_than_auto_is_refused_and_the_message_names_auto() -> None:
    for trust in ("AUTO", "auto "):
        with pytest.raises(ConfigError, match=r"trust='.*': allowed is a number in \[0, 1\], or auto"):
            BudgetedReranker(lambda query, texts: [0.5] * len(texts), docs=8, trust=trust)  # type: ignore[arg-type]


def test_what_scores_have_chosen_says_nothing_of_the_reranker() -> None:
    """Found on TREC DL 2019: later batches are chosen by earlier scores, and took the trust from a useful reranker."""
    from scipy.stats import spearmanr  # takes a second of every process that collects tests

    rng = np.random.default_rng(0)
    reranker = BudgetedReranker(lambda query, texts: [float(text) for text in texts], docs=20, trust="auto")
    heard: list[float | None] = []
    hear = reranker.doubts.hear
    reranker.doubts.hear = lambda name, margins, correlation=None: heard.append(correlation) or hear(name, margins)
    relevance = rng.random(60)
    first = relevance + rng.normal(size=60)
    reranker.rank("a query", [f"{value:.4f}" for value in relevance], scores=first.tolist())
    best = np.argsort(-first)[:5]
    assert heard == [pytest.approx(spearmanr(first[best], relevance[best])[0], abs=1e-3)]
