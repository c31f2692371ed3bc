"""A learned prior: what it is learned from, what it is not, and that nothing learned changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from experiments.study.grid_file import load_grid
from experiments.study.learned.candidates import BILL, Candidates, first
from experiments.study.learned.estimator import LearnedPriorEstimator
from experiments.study.learned.fit import MODELS, Past, fitted, lessons, others, predicted
from experiments.study.learned.replays import histories, prepared
from ragtune import Corpus, Document
from ragtune.core.errors import ConfigError, DatasetError
from ragtune.core.pool.items import ItemState, PoolItem
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.request.context import RAGtuneContext
from ragtune.embedders.tfidf import TfidfEmbedder
from ragtune.estimators.uncertainty import UncertaintyEstimator

MakeContext = Callable[..., RAGtuneContext]


def _past(group: str, seed: int, queries: int = 12, n: int = 30) -> Past:
    """Queries whose scores are the prior mean and twice the second feature, on a scale of their own."""
    rng = np.random.default_rng(seed)
    found = {}
    for i in range(queries):
        features = rng.standard_normal((n, 3))
        means, bill = features[:, 0] * 0.3, list(range(BILL))
        logits = 7.0 * (means + 2.0 * features[:, 1])[bill] - 40.0
        found[f"{seed}-{i}"] = Candidates([f"d{j}" for j in range(n)], means, features, bill, logits)
    return Past(group, found)


def _garbled(past: Past) -> Past:
    """The same queries, their documents scored otherwise."""
    return replace(past, queries={q: replace(one, logits=one.logits[::-1] * 3.0) for q, one in past.queries.items()})


def _means_of(everything: Mapping[str, Past], name: str, model: str) -> np.ndarray:
    learned = fitted(model, lessons(others(everything, name)), 0)
    return np.concatenate([predicted(one, learned) for one in everything[name].queries.values()])


@pytest.mark.parametrize("model", MODELS)
def test_no_score_of_a_group_that_is_left_out_is_learned_from(model: str) -> None:
    everything = {"a1": _past("a", 1), "a2": _past("a", 2), "b": _past("b", 3), "c": _past("c", 4)}
    known = _means_of(everything, "a1", model)
    garbled = everything | {"a1": _garbled(everything["a1"]), "a2": _garbled(everything["a2"])}
    np.testing.assert_array_equal(_means_of(garbled, "a1", model), known)
    assert not np.array_equal(_means_of(everything | {"b": _garbled(everything["b"])}, "a1", model), known)


@pytest.mark.parametrize("model", MODELS)
def test_a_history_ends_where_it_says(model: str) -> None:
    past = _past("a", 1)
    seen = first(past.queries, list(past.queries)[:10])
    assert list(seen) == [f"1-{i}" for i in range(10)]
    assert lessons([Past("a", seen)]).targets.shape == (10 * BILL,)
    assert histories(39) == [10]
    assert histories(110) == [10, 30, 100]


@pytest.mark.parametrize("model", MODELS)
def test_what_scores_say_beyond_the_prior_is_learned_whatever_their_scale(model: str) -> None:
    everything = {"a": _past("a", 1), "b": _past("b", 2, queries=40), "c": _past("c", 3, queries=40)}
    wanted = np.concatenate([one.features[:, 1] for one in everything["a"].queries.values()])
    assert np.corrcoef(_means_of(everything, "a", model), wanted)[0, 1] > 0.9


def test_groups_weigh_the_same_and_so_do_the_members_of_one() -> None:
    taught = lessons([_past("a", 1, queries=4), _past("a", 2, queries=2), _past("b", 3, queries=6)])
    sums = [part.sum() for part in np.split(taught.weights, np.array([4, 6]) * BILL)]
    assert taught.weights.mean() == pytest.approx(1.0)
    np.testing.assert_allclose(np.array(sums) / sum(sums), [0.25, 0.25, 0.5])


def test_a_single_group_teaches_nothing() -> None:
    everything = {"a1": _past("a", 1), "a2": _past("a", 2)}
    with pytest.raises(ConfigError, match="two groups"):
        lessons(others(everything, "a1"))


LETTERS = Corpus(Document(id=letter, text=f"text {letter}") for letter in "abcdef")


def _pool(ids: str) -> CandidatePool:
    found = [LETTERS.scored(doc_id, 1.0 - i / 10) for i, doc_id in enumerate(ids)]
    return CandidatePool(PoolItem.from_document(one, i, {"original": one.score}) for i, one in enumerate(found))


def _table(file: Path, query_id: str, means: Mapping[str, float]) -> Path:
    told = sorted(means.items(), key=lambda one: -one[1])
    file.write_text("".join(f"{query_id} Q0 {doc_id} {i} {mean!r} x\n" for i, (doc_id, mean) in enumerate(told, 1)))
    return file


def test_means_that_nobody_has_learned_leave_the_policy_as_it_is(make_context: MakeContext, tmp_path: Path) -> None:
    usual, pool, context = UncertaintyEstimator(LETTERS, TfidfEmbedder), _pool("abcdef"), make_context()
    belief = usual.value(pool, context).belief
    assert belief is not None
    same = dict(zip(pool.doc_ids, belief.mean.tolist(), strict=True))
    other = same | {"d": 2.0}
    keys = []
    for means in (None, same, other):
        file = means and _table(tmp_path / "means.run", context.query_id, means)
        estimator = LearnedPriorEstimator(LETTERS, TfidfEmbedder, file) if file else usual
        pool, context = _pool("abcdef"), make_context()
        pool.apply_priorities(estimator.value(pool, context))
        pool.transition(["a", "f"], ItemState.IN_FLIGHT)
        pool.update_scores({"a": 0.2, "f": 0.9}, "default")
        keys.append(estimator.value(pool, context).posterior)
    np.testing.assert_allclose(keys[0], keys[1])
    assert np.argmax(keys[2]) == 3


def test_a_candidate_without_a_mean_is_named(make_context: MakeContext, tmp_path: Path) -> None:
    context = make_context()
    estimator = LearnedPriorEstimator(LETTERS, TfidfEmbedder, _table(tmp_path / "x.run", context.query_id, {"a": 0.5}))
    with pytest.raises(DatasetError, match="no mean of document 'b'"):
        estimator.value(_pool("ab"), context)


@pytest.mark.parametrize("policy", ["fixed", "nonsense"])
def test_a_policy_without_a_prior_is_refused_by_its_name(policy: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"'{policy}': allowed are those of kind ours"):
        prepared(load_grid("demo"), [policy], tmp_path)
