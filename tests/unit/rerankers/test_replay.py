import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from ragtune import BudgetedReranker
from ragtune.core.errors import ConfigError, ScoreTableError
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.context import RAGtuneContext
from ragtune.rerankers.replay import ReplayReranker
from ragtune.rerankers.scale import Sample, ScoreScale
from ragtune.rerankers.score_table import ScoreTable

MakeContext = Callable[..., RAGtuneContext]


def _table(folder: Path, *scores: float) -> Path:
    file = folder / "scores.run"
    lines = [f"q1 Q0 d{i} {i} {score} x\n" for i, score in enumerate(scores, start=1)]
    file.write_text("".join(lines), encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("scale", "raw", "expected"),
    [
        ("identity", 0.25, 0.25),
        ("logit", 0.0, 0.5),
        ("logit", -40.0, math.exp(-40.0)),
        ("log_prob", math.log(0.2), 0.2),
        ("cosine", -0.5, 0.25),
    ],
)
def test_every_scale_is_calibrated_to_the_unit_interval(
    tmp_path: Path, scale: str, raw: float, expected: float
) -> None:
    assert ScoreTable(_table(tmp_path, raw), scale).of_query("q1")["d1"] == pytest.approx(expected)


def test_rank_keeps_the_order_only_and_equal_scores_share_their_mean_rank(tmp_path: Path) -> None:
    table = ScoreTable(_table(tmp_path, 5.0, 7.0, 5.0, 1.0), "rank")
    assert table.of_query("q1") == {"d2": 1 / 2, "d1": 1 / 3.5, "d3": 1 / 3.5, "d4": 1 / 5}


@pytest.mark.parametrize(
    ("scale", "raw"), [("identity", 1.5), ("identity", -0.1), ("log_prob", 0.1), ("cosine", 1.2), ("logit", 1e9)]
)
def test_a_number_that_the_scale_does_not_allow_is_named(tmp_path: Path, scale: str, raw: float) -> None:
    with pytest.raises(ScoreTableError, match=rf"score {raw} of \('q1', 'd1'\).*scale '{scale}' allows"):
        ScoreTable(_table(tmp_path, raw), scale)


def test_a_long_value_in_a_manifest_is_not_quoted_in_full(tmp_path: Path) -> None:
    file = _table(tmp_path, 0.5)
    file.with_name("scores.run.manifest.json").write_text(json.dumps({"scale": "x" * 10**5}))
    with pytest.raises(ScoreTableError, match=r"malformed manifest '.*scores\.run\.manifest\.json': ") as refused:
        ScoreTable(file)
    assert len(str(refused.value)) < 300 + len(str(tmp_path))


def test_equal_scores_are_ordered_as_trec_eval_does_where_that_is_asked_for(tmp_path: Path) -> None:
    scores = [0.0, 1.0, 0.5, 1.0, 0.0, 0.5, math.nextafter(1.0, 0.0), 0.0]
    table = ScoreTable(_table(tmp_path, *scores), "identity", "trec_eval").of_query("q1")
    assert sorted(table, key=table.__getitem__) == ["d1", "d5", "d8", "d3", "d6", "d7", "d2", "d4"]
    assert len(set(table.values())) == len(scores)
    assert all(table[f"d{i}"] == pytest.approx(score, abs=1e-15) for i, score in enumerate(scores, start=1))
    assert 0.0 <= min(table.values()) <= max(table.values()) <= 1.0
    with pytest.raises(ConfigError, match="ties='random': allowed are first_stage, trec_eval"):
        ScoreTable(tmp_path / "scores.run", "identity", "random")


def test_the_manifest_supplies_scale_and_prices_and_arguments_win(tmp_path: Path, make_context: MakeContext) -> None:
    file = _table(tmp_path, -1.0, -2.0)
    manifest = {"scale": "log_prob", "tokens_per_doc": 10, "ms_per_doc": 2, "ms_per_call": 5, "usd_per_doc": 0.01}
    file.with_name("scores.run.manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    items = [PoolItem(doc_id="d1"), PoolItem(doc_id="d2")]
    cost = ReplayReranker(str(file)).expected_cost(items, make_context())
    assert cost.model_dump() == {"tokens": 20, "docs": 2, "calls": 1, "latency_ms": 9.0, "usd": 0.02}
    cheaper = ReplayReranker(str(file), ms_per_call=0.0, tokens_per_doc=1).expected_cost(items, make_context())
    assert (cheaper.tokens, cheaper.latency_ms) == (2, 4.0)


def test_flops_and_search_units_are_those_of_the_model_and_the_bill(tmp_path: Path, make_context: MakeContext) -> None:
    file = _table(tmp_path, 0.5)
    size = {"layers": 2, "hidden": 8, "feed_forward": 16, "max_length": 50}
    items = [PoolItem(doc_id=str(i), token_count=n) for i, n in enumerate((7, 30, 90))]
    bare = ReplayReranker(str(file))
    assert {"flops", "search_units", "joules"} <= bare.facts.unpriced
    assert not {"flops", "search_units", "joules"} & bare.expected_cost(items, make_context()).model_dump().keys()
    prices = {"docs_per_search_unit": 2, "usd_per_search_unit": 0.5, "usd_per_doc": 1.0}
    given = ReplayReranker(str(file), architecture=size, **prices)
    cost = given.expected_cost(items, make_context("two words"))
    weights = 4 * 8 * 2 * (2 * 8 + 16)
    assert cost.flops == sum(weights * n + 4 * 2 * 8 * n**2 for n in (9, 32, 50)), "each pair by its own length"
    assert (cost.search_units, cost.usd) == (2, 4.0)
    assert given.facts.unpriced == {"latency_ms", "joules"}
    manifest = {"architecture": size, "docs_per_search_unit": 100}
    file = file.rename(file.with_name("told.run"))
    file.with_name("told.run.manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    by_manifest = ReplayReranker(str(file)).expected_cost(items, make_context("two words"))
    assert (by_manifest.flops, by_manifest.search_units) == (cost.flops, 1)


@pytest.mark.parametrize("price", ["tokens_per_doc", "usd_per_doc"])
def test_prices_that_are_none_are_refused(tmp_path: Path, price: str) -> None:
    with pytest.raises(ConfigError, match=f"{price}=-1: allowed is a number >= 0"):
        ReplayReranker(str(_table(tmp_path, 0.5)), **{price: -1})


DRAWS = {
    "probabilities": lambda rng: rng.uniform(0.05, 0.99, (10, 40)),
    "massed": lambda rng: rng.beta(0.2, 2.0, (10, 40)),
    "log": lambda rng: np.log(rng.beta(0.5, 0.5, (10, 40)) + 1e-9).clip(max=0.0),
    "cosines": lambda rng: rng.normal(0.35, 0.15, (10, 40)).clip(-1.0, 1.0),
    "logits": lambda rng: rng.normal(-2.0, 4.0, (10, 40)),
    "bm25": lambda rng: rng.gamma(4.0, 3.0, (10, 40)),
    "distances": lambda rng: -rng.uniform(0.0, 2.0, (10, 40)),
}
"""Scores of ten queries, drawn."""


@pytest.mark.parametrize(
    ("drawn", "declared", "said"),
    [
        ("probabilities", "identity", "silent"),
        ("log", "log_prob", "silent"),
        ("cosines", "cosine", "silent"),
        ("logits", "logit", "silent"),
        ("probabilities", "logit", "stop"),
        ("probabilities", "cosine", "warn"),
        ("log", "logit", "stop"),
        ("bm25", "logit", "warn"),
        ("distances", "logit", "warn"),
        ("bm25", "rank", "silent"),
    ],
)
@pytest.mark.parametrize("odd", [None, 1.0001, 1e-7])
def test_drawn_scores_tell_their_scale_with_an_odd_one_among_them(
    drawn: str, declared: str, said: str, odd: float | None
) -> None:
    for seed in range(50):
        scores = DRAWS[drawn](np.random.default_rng(seed))
        if odd is not None:
            scores[3, 7] = odd
        found = Sample(scores.ravel(), scores.max(axis=1)).against(ScoreScale(declared))
        assert ("silent" if found is None else "stop" if found.is_sure else "warn") == said


def test_the_odd_score_of_a_table_is_named_where_the_others_are_on_the_scale(tmp_path: Path) -> None:
    scores = [*np.random.default_rng(0).uniform(0.0, 1.0, 199), 1.0001]
    table = tmp_path / "scores.run"
    table.write_text("".join(f"q Q0 d{i} {i} {score} x\n" for i, score in enumerate(scores)), encoding="utf-8")
    with pytest.raises(ScoreTableError, match=r"score 1\.0001 of \('q', 'd199'\).*almost all other scores are"):
        ScoreTable(table, "identity")
    with pytest.raises(ScoreTableError, match=r"in \[0, 1\], so they are no logits"):
        ScoreTable(table, "logit")


def _warnings(scale: str, scores: Sequence[float], queries: int = 8) -> list[list[str]]:
    texts = [str(i) for i in range(40)]
    reranker = BudgetedReranker(lambda query, given: [scores[int(text)] for text in given], docs=40, scale=scale)
    return [reranker.rank(f"query {i}", texts).warnings for i in range(queries)]


def test_a_live_reranker_is_doubted_once_and_never_stopped() -> None:
    rng = np.random.default_rng(0)
    (said,) = [words for each in _warnings("logit", rng.uniform(0.05, 0.99, 40).tolist()) for words in each]
    assert said.startswith("scale=logit: of the first 200 scores of the reranker almost all are in [0, 1]")
    assert "use scale=identity" in said
    assert not any(_warnings("logit", rng.normal(-2.0, 4.0, 40).tolist()))
    assert not any(_warnings("identity", rng.uniform(0.05, 0.99, 40).tolist()))
