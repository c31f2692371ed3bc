"""A comparer without a model: the table's order, documented faults, a bill."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from ragtune.core.errors import LLMError
from ragtune.core.pool.items import PoolItem
from ragtune.core.types import CostObject
from ragtune.rerankers.simulated import SimulatedReranker
from ragtune.testing import make_context

SCORES = {"a": 0.2, "b": 0.9, "c": 0.6, "d": 0.6, "e": 0.1}


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., SimulatedReranker]:
    file = tmp_path / "scores.run"
    file.write_text("".join(f"q1 Q0 {doc_id} 1 {score} table\n" for doc_id, score in SCORES.items()))
    return lambda **options: SimulatedReranker(str(file), "identity", **options)


def shown(doc_ids: Sequence[str], tokens: int = 40) -> list[PoolItem]:
    return [PoolItem(doc_id=doc_id, initial_rank=i, token_count=tokens) for i, doc_id in enumerate(doc_ids)]


def order(reranker: SimulatedReranker, doc_ids: Sequence[str], **context: int) -> list[str]:
    scores = reranker.rerank(shown(doc_ids), make_context("three little words", **context), "default")
    return sorted(scores, key=lambda doc_id: -scores[doc_id])


def test_without_faults_a_window_comes_back_in_the_order_of_the_table_and_ties_as_they_were_shown(make):
    assert order(make(), "adecb") == ["b", "d", "c", "a", "e"]
    assert order(make(), "acedb") == ["b", "c", "d", "a", "e"]


def test_a_setwise_answer_tells_the_best_one_only(make):
    scores = make(told=1).rerank(shown("abc"), make_context(), "default")
    assert scores == {"a": 1 / 3, "b": 1 / 2, "c": 1 / 3}


def test_the_same_prompt_has_the_same_answer_and_another_one_another(make):
    noisy = make(noise=2.0)
    answers = {seed: order(noisy, "abcde", seed=seed) for seed in range(8)}
    assert answers == {seed: order(make(noise=2.0), "abcde", seed=seed) for seed in range(8)}
    assert len({tuple(answer) for answer in answers.values()}) > 4
    assert [order(noisy, "abcde", seed=s) for s in range(8)] != [order(noisy, "abced", seed=s) for s in range(8)]


def test_a_share_of_the_prompts_is_refused_each_as_often_as_it_is_sent(make):
    def is_refused(doc_ids: str, seed: int, share: float = 0.3) -> bool:
        try:
            return order(make(refused=share), doc_ids, seed=seed) == []
        except LLMError:
            return True

    refused = [is_refused("abc", seed) for seed in range(400)]
    assert np.mean(refused) == pytest.approx(0.3, abs=0.05)
    assert refused == [is_refused("abc", seed) for seed in range(400)]
    assert refused != [is_refused("acb", seed) for seed in range(400)]
    assert is_refused("abc", 0, share=1.0)


def test_noise_follows_the_plackett_luce_model(make):
    """Of two documents, the better wins with probability 1 / (1 + exp(-difference / noise))."""
    z = np.log(np.array(list(SCORES.values())) / (1 - np.array(list(SCORES.values()))))
    gap = float((z[1] - z[0]) / z.std())
    wins = np.mean([order(make(noise=1.0), "ab", seed=seed)[0] == "b" for seed in range(600)])
    assert wins == pytest.approx(1 / (1 + np.exp(-gap)), abs=0.05)


def test_a_position_bias_favours_what_is_shown_first(make):
    assert order(make(position_bias=100.0), "ebacd") == ["e", "b", "a", "c", "d"]


def test_a_random_direction_makes_a_position_bias_noise_of_mean_zero(make):
    fair = make(position_bias=100.0, shuffled=True)
    first = [order(fair, "ea", seed=seed)[0] for seed in range(400)]
    assert np.mean([doc_id == "e" for doc_id in first]) == pytest.approx(0.5, abs=0.08)
    assert first == [order(fair, "ae", seed=seed)[0] for seed in range(400)], "the direction is that of the pair"


def test_the_bill_is_that_of_one_prompt_and_its_answer(make):
    reranker = make(prices={"prompt": 1.0, "completion": 10.0}, ms_per_call=7.0)
    prompt, answer = 100 + 3 + 4 * (300 + 8), 16 + 4 * 4
    context = make_context("one two three")
    expected = CostObject(tokens=prompt + answer, docs=4, calls=1, latency_ms=7.0, usd=(prompt + 10 * answer) / 1000)
    assert reranker.expected_cost(shown("abcd", tokens=999), context) == expected
    assert reranker.facts.unpriced == frozenset()
    assert make(tokens_per_doc=5).expected_cost(shown("a"), context).tokens == 100 + 3 + 13 + 20
