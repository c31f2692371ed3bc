"""Policies that compare windows: the figures of their papers, on comparers that make no mistake."""

from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from ragtune import Corpus, CostBudget, Document
from ragtune.core.pool.items import PoolItem, SentBatch
from ragtune.core.pool.pool import CandidatePool
from ragtune.embedders.tfidf import TfidfEmbedder
from ragtune.estimators.comparing._windows import Game, WindowEstimator, first_round
from ragtune.estimators.comparing.active_prp import ActivePRPEstimator
from ragtune.estimators.comparing.acurank import AcuRankEstimator
from ragtune.estimators.comparing.blitzrank import BlitzRankEstimator
from ragtune.estimators.comparing.jointrank import JointRankEstimator
from ragtune.estimators.comparing.knockout import KnockoutEstimator
from ragtune.estimators.comparing.plackett_luce import PlackettLuceEstimator
from ragtune.estimators.comparing.realm import REALMEstimator, _Rating
from ragtune.estimators.comparing.setwise_insertion import SetwiseInsertionEstimator
from ragtune.estimators.comparing.sliding import SlidingEstimator
from ragtune.estimators.comparing.tdpart import TDPartEstimator
from ragtune.estimators.comparing.tourrank import TourRankEstimator
from ragtune.estimators.comparing.ts_setrank import TSSetRankEstimator
from ragtune.testing import make_context


def documents(n: int) -> list[PoolItem]:
    return [
        PoolItem(doc_id=f"d{i:03d}", initial_rank=i, retrieval_score=float(n - i), sources={"bm25": float(n - i)})
        for i in range(n)
    ]


def sent(window: list[int], worth: np.ndarray, told: int | None = None) -> SentBatch:
    """The batch that a comparer sends back: the first ``told`` in order, the others alike."""
    batch = SentBatch.of("default", np.array(window))
    places = np.argsort(np.argsort(-worth[window]))
    return batch._replace(scores=1.0 / (2.0 + (places if told is None else np.minimum(places, told))))


def played(
    policy: WindowEstimator, worth: np.ndarray, calls: int | None = None, told: int | None = None, lies: float = 0.0
) -> SimpleNamespace:
    """How a policy gets on that is told the truth, but for a share of reversed answers: its windows and its ranking."""
    rng = np.random.default_rng(0)
    game = Game(partial(policy.play, documents(len(worth)), lambda: calls))
    batches: list[SentBatch] = []
    while game.ask.window and (calls is None or len(batches) < calls):
        assert len(set(game.ask.window)) == len(game.ask.window) >= 2
        batches.append(sent(list(game.ask.window), worth if rng.random() >= lies else -worth, told))
        game.hear(batches)
        assert sorted(game.ask.ranking) == list(range(len(worth)))
    return SimpleNamespace(calls=len(batches), ranking=list(game.ask.ranking), batches=batches)


def worths(n: int) -> list[np.ndarray]:
    return [np.random.default_rng(seed).permutation(n).astype(float) for seed in range(6)]


def best(worth: np.ndarray, k: int) -> list[int]:
    return np.argsort(-worth)[:k].tolist()


@pytest.mark.parametrize(
    ("n", "k", "m", "fewest", "most"), [(25, 5, 3, 7, 7), (100, 20, 10, 6, 7), (100, 10, 10, 12, 15)]
)
def test_blitzrank_knows_the_best_after_as_many_calls_as_in_its_paper(n, k, m, fewest, most):
    for worth in worths(n):
        end = played(BlitzRankEstimator(window=k, top_k=m), worth)
        assert fewest <= end.calls <= most
        assert end.ranking[:m] == best(worth, m)


def test_a_sliding_window_takes_nine_calls_and_fewer_calls_reach_less_far():
    for worth in worths(100):
        end = played(SlidingEstimator(), worth)
        assert end.calls == 9
        assert end.ranking[:10] == best(worth, 10)
        shorter = played(SlidingEstimator(), worth, calls=2)
        assert shorter.calls == 2
        assert shorter.ranking[:10] == best(worth[:30], 10)
        assert shorter.ranking[30:] == list(range(30, 100))


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (TourRankEstimator(), (100, 5)),
        (AcuRankEstimator(), (100, 5)),
        (SlidingEstimator(), (180, 9)),
        (JointRankEstimator(), (400, 20)),
        (KnockoutEstimator(), (230, 115)),  # 90 pairs for the champions, and bisections among up to 9 of them
        (TDPartEstimator(), (0, 0)),
        (REALMEstimator(), (149, 50)),  # 99 documents and 50 times the pivot
    ],
)
def test_a_first_round_is_counted_beforehand_and_is_never_longer(policy, expected):
    begin = partial(policy.play, documents(100), lambda: None)
    assert first_round(begin) == expected
    for worth in worths(100):
        game, batches = Game(begin), list[SentBatch]()
        while game.ask.opens:
            batches.append(sent(list(game.ask.window), worth))
            game.hear(batches)
        assert sum(len(batch.positions) for batch in batches) <= expected[0]
        assert len(batches) <= expected[1]


@pytest.mark.parametrize("window", [20, 4])
def test_setwise_insertion_finds_the_top_in_order(window):
    for worth in worths(40)[:3]:
        assert played(SetwiseInsertionEstimator(window), worth).ranking[:10] == best(worth, 10)


def test_knockout_finds_the_top_in_order_by_pairs():
    for worth in worths(100):
        end = played(KnockoutEstimator(), worth)
        assert end.ranking[:10] == best(worth, 10)
        assert {len(batch.positions) for batch in end.batches} == {2}
        assert 180 <= end.calls <= 260  # the paper's mean is 232


def test_active_prp_repairs_the_top_of_a_knockout_after_a_noisy_comparison():
    end, shorter = [], []
    for worth in worths(100):
        exact = played(ActivePRPEstimator(), worth)
        assert exact.ranking[:10] == best(worth, 10)
        assert {len(batch.positions) for batch in exact.batches} == {2}
        extra = exact.calls - played(KnockoutEstimator(), worth).calls
        assert extra == 18 + 9, "a pass over 19 documents without an exchange, then a pair for each further place"
        for policy, found in ((ActivePRPEstimator(), end), (KnockoutEstimator(), shorter)):
            found.append(worth[played(policy, worth, lies=0.15).ranking[:10]].mean())
    assert np.mean(end) > np.mean(shorter)


@pytest.mark.parametrize("replicas", [2, 4])
def test_blocks_of_jointrank_hold_each_document_as_often_as_its_design_says(replicas):
    for worth in worths(100)[:3]:
        end = played(JointRankEstimator(replicas=replicas), worth)
        assert end.calls == replicas * 100 // 20  # b = r v / k
        assert (np.bincount(np.concatenate([batch.positions for batch in end.batches])) == replicas).all()
        assert best(worth, 1)[0] in end.ranking[:3]
        shorter = played(JointRankEstimator(replicas=replicas), worth, calls=6)
        assert best(worth[: 120 // replicas], 1)[0] in shorter.ranking[:3]
        assert shorter.ranking[120 // replicas :] == list(range(120 // replicas, 100))


def test_a_rating_of_realm_is_the_mixture_of_trueskills_after_a_win_and_a_loss():
    one, other = _Rating(27.0, 5.0**2), _Rating(24.0, 7.0**2)
    won, lost = one.against(other, 1.0), one.against(other, 0.0)
    # rate_1vs1 of the package trueskill: 28.595 and 4.651 after a win, 24.507 and 4.576 after a loss.
    assert [won.mean, won.variance**0.5] == pytest.approx([28.595, 4.651], abs=5e-4)
    assert [lost.mean, lost.variance**0.5] == pytest.approx([24.507, 4.576], abs=5e-4)
    mixed = one.against(other, 0.75)
    assert mixed.mean == pytest.approx(0.75 * 28.595 + 0.25 * 24.507, abs=5e-4)
    # The mean of the variances, and the variance of the means.
    assert mixed.variance == pytest.approx(
        0.75 * 4.651**2 + 0.25 * 4.576**2 + 0.1875 * (28.595 - 24.507) ** 2, abs=0.01
    )


def test_realm_compares_every_document_with_one_pivot_and_then_only_what_decides_the_top():
    for worth in worths(100):
        end = played(REALMEstimator(), worth)
        first = [batch.positions.tolist() for batch in end.batches[:50]]  # (100 - 1) / (3 - 1), rounded up
        assert {window[-1] for window in first} == {0}, "all ratings are as certain, so the first one is the pivot"
        assert sorted(position for window in first for position in window[:-1]) == list(range(1, 100))
        assert 50 < end.calls < 120
        assert len(set(end.ranking[:10]) & set(best(worth, 10))) >= 8


def ours(**options: Any) -> PlackettLuceEstimator:
    corpus = Corpus(Document(id=f"d{i:03d}", text=f"word{i} common{i % 7}") for i in range(100))
    return PlackettLuceEstimator(corpus, TfidfEmbedder, **options)


def test_the_posterior_over_orders_finds_the_top_of_a_list_in_no_order():
    for worth in worths(60)[:3]:
        found = played(ours(kappa=2.0, first_stage=0.0), worth, calls=12).ranking
        assert found[:5] == best(worth, 5)
        assert len(set(found[:10]) & set(best(worth, 10))) >= 9


def test_the_weight_of_the_first_stage_moves_the_ranking_to_its_order():
    worth = worths(60)[0]
    by_mean, mixed, first = (played(ours(first_stage=w), worth, calls=5).ranking for w in (0.0, 0.15, 1e6))
    assert first == list(range(60))
    assert mixed not in (by_mean, first)


def test_documents_without_text_are_shown_sooner():
    corpus = Corpus(Document(id=f"d{i:03d}", text="" if i % 2 else f"word{i} common") for i in range(100))
    end = played(PlackettLuceEstimator(corpus, TfidfEmbedder), worths(100)[0], calls=3)
    shown = np.concatenate([batch.positions for batch in end.batches])
    assert (shown % 2).mean() > 0.5


POLICIES = {
    "acurank": lambda: AcuRankEstimator(window=8, top_k=5),
    "active_prp": lambda: ActivePRPEstimator(top_k=5),
    "blitzrank": lambda: BlitzRankEstimator(window=8, top_k=5),
    "jointrank": lambda: JointRankEstimator(window=8),
    "knockout": lambda: KnockoutEstimator(top_k=5),
    "plackett_luce": lambda: PlackettLuceEstimator(None, lambda corpus: NoTexts(), window=8),
    "realm": lambda: REALMEstimator(window=5, top_k=5),
    "setwise_insertion": lambda: SetwiseInsertionEstimator(top_k=5),
    "sliding": lambda: SlidingEstimator(window=8, step=4),
    "tdpart": lambda: TDPartEstimator(window=8, top_k=4),
    "tourrank": lambda: TourRankEstimator(tournaments=2),
    "ts_setrank": lambda: TSSetRankEstimator(window=5, rounds=12, picked=2),
}


class NoTexts:
    def of(self, items: Any) -> csr_matrix:
        return csr_matrix((len(items), 1))


@pytest.mark.parametrize("policy", POLICIES)
@given(
    n=st.sampled_from([2, 9, 30]),
    calls=st.sampled_from([None, 1, 3, 12]),
    told=st.sampled_from([None, 0, 1]),
    seed=st.integers(0, 99),
    refused=st.lists(st.booleans(), max_size=20),
    poison=st.none() | st.integers(0, 29),
    is_dead=st.booleans(),
)
@settings(max_examples=30, deadline=None)
def test_a_policy_goes_on_after_failed_windows_and_ends(policy, n, calls, told, seed, refused, poison, is_dead):
    """Some calls fail, or those that show one document, or from some call on all; nobody else ends it."""
    worth = np.random.default_rng(seed).permutation(n).astype(float)
    game = Game(partial(POLICIES[policy]().play, documents(n), lambda: calls))
    batches, judged, answers = [], set[int](), iter(refused)
    while game.ask.window and (calls is None or len(batches) < calls):
        window = list(game.ask.window)
        assert len(set(window)) == len(window) >= 2
        has_failed = next(answers, is_dead) or poison in window
        batches.append(SentBatch.of("default", np.array(window)) if has_failed else sent(window, worth, told))
        game.hear(batches)
        judged |= set() if has_failed else set(window)
        ranking = list(game.ask.ranking)
        assert sorted(ranking) == list(range(n))
        never = [position for position in ranking if position not in judged]
        if (
            policy not in ("knockout", "active_prp") or not judged
        ):  # there a champion stands before what other groups have left
            assert never == sorted(never), "what was never compared stays in the first stage's order"
        assert len(batches) < 60 * n


@pytest.mark.parametrize("make", [BlitzRankEstimator, TDPartEstimator, AcuRankEstimator, JointRankEstimator, ours])
def test_a_window_on_which_all_hangs_is_asked_for_by_halves(make):
    game = Game(partial(make().play, documents(40), lambda: 4))
    asked: list[SentBatch] = []
    if make is AcuRankEstimator:  # its first pass goes over the list whatever becomes of it
        asked += [sent(list(range(20)), np.arange(40.0)), sent(list(range(20, 40)), np.arange(40.0))]
        game.hear(asked)
    first = list(game.ask.window)
    asked.append(SentBatch.of("default", np.array(first)))
    game.hear(asked)
    assert list(game.ask.window) == first[: len(first) // 2]
    before = game.ask.ranking
    asked.append(sent(list(game.ask.window), np.arange(40.0)))
    game.hear(asked)
    assert game.ask.ranking != before


def test_a_limit_on_documents_is_one_of_as_many_full_windows():
    asked = []
    for limits in (
        {"max_reranker_docs": 59},
        {"max_reranker_calls": 2},
        {"max_reranker_calls": 2, "max_reranker_docs": 500},
    ):
        context = make_context(tracker=CostBudget.only(**limits).create_tracker())
        asked.append(SlidingEstimator().value(CandidatePool(documents(100)), context).window)
    assert list(asked[0]) == list(range(10, 30))
    assert asked[1] == asked[2] == asked[0]


def test_ts_setrank_explores_a_fifth_of_its_rounds_at_random_and_then_shows_what_may_be_relevant():
    explored, drawn = [], []
    for worth in worths(100):
        end = played(TSSetRankEstimator(), worth)
        assert end.calls == 100
        top = set(best(worth, 10))
        hits = [len(top & set(batch.positions.tolist())) for batch in end.batches]
        explored.append(np.mean(hits[:20]))
        drawn.append(np.mean(hits[-20:]))
        assert len(top & set(end.ranking[:10])) >= 6
    assert np.mean(explored) == pytest.approx(1.0, abs=0.3)  # 10 of 100, a tenth of which are the top
    assert np.mean(drawn) > 3.0


@pytest.mark.parametrize("n", [11, 100])
def test_acurank_ends_where_a_comparer_tells_nothing_apart(n):
    end = played(AcuRankEstimator(), np.ones(n), told=0)
    assert end.calls <= 2 * -(-n // 20)
