"""A wrong scale is noticed from the scores, and a right one never is, odd scores or not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from ragtune import BudgetedReranker
from ragtune.core.errors import ScoreTableError
from ragtune.rerankers.scale import Sample, ScoreScale
from ragtune.rerankers.score_table import ScoreTable

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
