"""Scores as probabilities of relevance, and a threshold on them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from ragtune import BudgetedReranker
from ragtune.core.errors import ConfigError, InputError
from ragtune.rerankers.calibration import Calibration, Judged, errors_of, fit
from ragtune.rerankers.ordering import OrderingReranker

TEXTS = [f"text {i}" for i in range(10)]
HALF = Calibration(model="m", method="isotonic", scores=(0.0, 1.0), probabilities=(0.0, 0.5))


def tenths(query: str, texts: Sequence[str]) -> list[float]:
    return [int(text.split()[1]) / 10 for text in texts]


def drawn(curve: Calibration, seed: int = 0) -> Judged:
    """Forty queries of fifty documents, judged as the curve says."""
    rng = np.random.default_rng(seed)
    scores = rng.uniform(size=2000)
    return Judged(scores, (rng.uniform(size=2000) < curve(scores)).astype(float), np.arange(2000) // 50)


STEPS = Calibration(model="m", method="isotonic", scores=(0.0, 0.49, 0.51, 1.0), probabilities=(0.02, 0.02, 0.4, 0.4))


POINTS = np.linspace(0.01, 0.99, 99)
LOGISTIC = Calibration(
    model="m",
    method="platt",
    scores=tuple(POINTS),
    probabilities=tuple(1.0 / (1.0 + np.exp(2.0 - 0.7 * np.log(POINTS / (1.0 - POINTS))))),
)


@pytest.mark.parametrize("truth", [LOGISTIC, STEPS])
def test_the_curve_that_made_the_judgments_is_found(truth: Calibration, tmp_path: Path) -> None:
    made = fit(drawn(truth), "m", "some data")
    assert made.method == truth.method
    points = np.linspace(0.05, 0.95, 19)
    assert np.abs(made(points) - truth(points)).mean() < 0.04
    assert made.after.ece < 0.04 < 0.2 < made.before.ece
    assert made.after.brier < made.before.brier
    (tmp_path / "kept.json").write_text(made.model_dump_json())
    assert Calibration.load(tmp_path / "kept.json") == made
    fresh = drawn(truth, seed=1)
    assert errors_of(made(fresh.scores), fresh.relevant).ece < 0.04


def test_a_reranker_that_prefers_what_is_not_relevant_gets_a_flat_curve_and_keeps_its_order() -> None:
    pairs = drawn(HALF)
    made = fit(pairs._replace(scores=1.0 - pairs.scores), "m")
    low, high = made([0.1, 0.9])
    assert low == pytest.approx(high, abs=0.05)
    assert low <= high


@pytest.mark.parametrize(("relevant", "queries"), [(0.0, 2), (1.0, 2), (None, 1)])
def test_too_few_judgments_are_refused_with_their_number(relevant: float | None, queries: int) -> None:
    grades = np.array([0.0, 1.0] * 5) if relevant is None else np.full(10, relevant)
    with pytest.raises(InputError, match=f"of 10 judged documents of {queries} quer"):
        fit(Judged(np.linspace(0, 1, 10), grades, np.arange(10) % queries), "m")


@pytest.mark.parametrize("text", ["", "{}", '{"model": "m", "method": "platt"}'])
def test_a_file_that_is_no_calibration_is_refused_by_name(text: str, tmp_path: Path) -> None:
    (tmp_path / "made.json").write_text(text)
    for file in (tmp_path / "made.json", tmp_path / "none.json"):
        with pytest.raises(ConfigError, match=file.name):
            BudgetedReranker(tenths, docs=1, calibration=file)


def test_probabilities_replace_scores_and_change_no_order() -> None:
    raw = BudgetedReranker(tenths, docs=6).rank("q", TEXTS)
    calibrated = BudgetedReranker(tenths, docs=6, calibration=HALF).rank("q", TEXTS)
    assert [one.index for one in calibrated] == [one.index for one in raw]
    assert [one.score for one in calibrated] == pytest.approx([one.score / 2 for one in raw])
    assert [one.reranker_score for one in calibrated] == [one.reranker_score for one in raw]


@pytest.mark.parametrize("policy", ["uncertainty", "fixed_depth"])
def test_a_threshold_keeps_what_the_reranker_has_given_as_much(policy: str) -> None:
    best_first = TEXTS[::-1]
    reranker = BudgetedReranker(tenths, docs=5, policy=policy, batch_size=5)
    found = reranker.rank("q", best_first, min_score=0.7)
    assert sorted(one.document for one in found) == ["text 7", "text 8", "text 9"]
    assert not found.nothing_relevant
    assert len(reranker.rank("q", best_first, min_score=0.7, top_k=2)) == 2
    (many,) = reranker.rank_many([("q", best_first)], min_score=0.95)
    assert (len(many), many.nothing_relevant, many.warnings) == (0, True, [])
    halved = BudgetedReranker(tenths, docs=5, policy=policy, calibration=HALF).rank("q", best_first, min_score=0.45)
    assert [one.document for one in halved] == ["text 9"]


def test_what_could_not_be_scored_is_not_called_irrelevant() -> None:
    def fails(query: str, texts: Sequence[str]) -> list[float]:
        raise ConnectionError("away")

    def loses_nine(query: str, texts: Sequence[str]) -> list[float]:
        return [float("nan") if text == "text 9" else 0.1 for text in texts]

    dead = BudgetedReranker(fails, docs=5).rank("q", TEXTS, min_score=0.9)
    assert [one.index for one in dead] == list(range(10))
    assert not dead.nothing_relevant
    assert any("min_score leaves none out" in one for one in dead.warnings)
    lost = BudgetedReranker(loses_nine, docs=10, policy="fixed_depth").rank("q", TEXTS, min_score=0.9)
    assert [(one.document, one.estimated) for one in lost] == [("text 9", True)]
    assert not lost.nothing_relevant


def test_places_have_no_threshold() -> None:
    compares = OrderingReranker(lambda query, texts: list(range(len(texts))))
    with pytest.raises(ConfigError, match="calibration: allowed with a reranker that gives scores"):
        BudgetedReranker(compares, policy="sliding", calls=2, calibration=HALF)
    with pytest.raises(ConfigError, match="min_score"):
        BudgetedReranker(compares, policy="sliding", calls=2).rank("q", TEXTS, min_score=0.5)
    with pytest.raises(ConfigError, match="min_score"):
        BudgetedReranker(tenths, docs=1).rank("q", TEXTS, min_score=1.5)


@pytest.mark.parametrize(
    ("scores", "probabilities"),
    [((0.0, 1.0), (0.5,)), ((0.0, 1.0), (0.0, 9.0)), ((1.0, 0.0), (0.0, 1.0)), ((0.0, 1.0), (1.0, 0.0))],
)
def test_a_damaged_curve_is_refused(
    tmp_path: Path, scores: tuple[float, ...], probabilities: tuple[float, ...]
) -> None:
    damaged = HALF.model_copy(update={"scores": scores, "probabilities": probabilities})
    (tmp_path / "curve.json").write_text(damaged.model_dump_json())
    with pytest.raises(ConfigError, match=r"curve\.json"):
        Calibration.load(tmp_path / "curve.json")
