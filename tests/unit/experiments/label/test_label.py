"""Which pairs are judged first, what their grades decide, and what a kill or a damaged file leaves."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.datasets.beir import read_qrels
from experiments.label.desk import SKIPPED, Label, Labels
from experiments.label.plan import (
    LEAST,
    LEAST_DIFFERENT,
    LabelPair,
    LabelPlan,
    Verdict,
    changes,
    conclude,
    decide,
    make_plan,
    orders_of,
    verdict_of,
)
from ragtune.core.errors import ConfigError, DatasetError

FIRST = list("abcdefghijklmnop")


def test_only_documents_whose_discount_differs_are_judged_and_those_that_gain_and_lose_most_come_first() -> None:
    second = ["p", *FIRST[:-1]]
    plan = make_plan([("q", FIRST, second)], seed=0)
    gains = changes(FIRST, second)
    assert set(gains) == {*FIRST[:10], "p"}
    assert sum(gains.values()) == pytest.approx(0.0)
    (pair,) = plan.pairs  # one document moves up
    assert (pair.up, pair.down) == ("p", "a")
    assert pair.weight == pytest.approx((1.0 + 1.0 - 1.0 / math.log2(3)) / 2.0)


def test_every_query_is_visited_before_any_second_pair_and_the_order_depends_on_the_seed_alone() -> None:
    orders = [(f"q{i}", FIRST, FIRST[::-1]) for i in range(20)]
    plan = make_plan([*orders, ("same", FIRST, FIRST)], seed=1)
    assert [pair.query_id for pair in plan.pairs[:20]] == [q for q in plan.queries if q != "same"]
    assert make_plan([*orders[::-1], ("same", FIRST, FIRST)], seed=1) == plan
    assert make_plan(orders, seed=2).queries != make_plan(orders, seed=1).queries
    shown = [pair.shown.index(pair.up) for pair in plan.pairs[:20]]
    assert 0 < sum(shown) < 20  # which document the reranker prefers is not given away


def plan_of(queries: int, unchanged: int = 0) -> LabelPlan:
    pairs = [LabelPair(f"q{i}", "up", "down", 1.0) for i in range(queries)]
    return LabelPlan([*(f"same{i}" for i in range(unchanged)), *(pair.query_id for pair in pairs)], pairs)


@pytest.mark.parametrize(
    ("relevant", "verdict"), [(("up",), "helps"), (("down",), "harms"), (("up", "down"), "undecided")]
)
def test_clear_grades_decide_and_equal_ones_do_not(relevant: tuple[str, ...], verdict: str) -> None:
    grades = {(f"q{i}", doc): i % 3 if doc in relevant else 0 for i in range(30) for doc in ("up", "down")}
    assert decide(plan_of(30), grades).verdict == verdict


def test_queries_that_the_reranker_leaves_alone_count_as_no_difference_and_a_half_judged_pair_not_at_all() -> None:
    grades = {(f"q{i}", doc): grade for i in range(10) for doc, grade in (("up", 1 + i % 2), ("down", 0))}
    alone, diluted = decide(plan_of(10), grades), decide(plan_of(10, unchanged=10), grades)
    assert (alone.queries, diluted.queries) == (10, 20)
    assert diluted.gain == pytest.approx(alone.gain / 2)
    assert decide(plan_of(11), {**grades, ("q10", "up"): 3}) == alone


def test_few_telling_queries_decide_nothing() -> None:
    for gains in ([1.0] * (LEAST_DIFFERENT - 1) + [0.0] * 20, [1.0, 0.9] * (LEAST // 2 - 1)):
        found = conclude(gains, len(gains))
        assert (found.verdict, found.confidence, found.low) == ("undecided", 0.0, None)
    assert conclude([1.0, 0.9] * (LEAST // 2), LEAST).verdict == "helps"


def test_looking_after_every_query_is_seldom_wrong_where_nothing_is_true() -> None:
    draws, wrong = np.random.default_rng(0), 0
    for _ in range(300):
        gains = draws.choice([-2.0, -1.0, 0.0, 1.0, 2.0], size=120)
        wrong += any(conclude(gains[:n], n).verdict != "undecided" for n in range(10, 121))
    assert wrong <= 60  # a fixed-sample test at the same level, looked at as often, is wrong in more than half


def label(doc_id: str, grade: int | str) -> Label:
    return Label(query_id="q", doc_id=doc_id, grade=grade)


def test_labels_survive_a_kill_in_the_middle_of_a_line(tmp_path: Path) -> None:
    labels = Labels(tmp_path)
    for one in (label("b", 2), label("a", 0), label("c", SKIPPED)):
        labels.add(one)
    journal = tmp_path / "labels.jsonl"
    journal.write_bytes(journal.read_bytes() + b'{"query_id":"q","doc_id":"d","gra')
    assert Labels(tmp_path).grades == {("q", "b"): 2, ("q", "a"): 0}
    assert read_qrels(Labels(tmp_path).write_qrels()) == {"q": {"a": 0, "b": 2}}


@pytest.mark.parametrize("line", ["not json", '{"query_id":"q","doc_id":"d","grade":7}'])
def test_a_damaged_line_is_named(line: str, tmp_path: Path) -> None:
    (tmp_path / "labels.jsonl").write_text(line + "\n")
    with pytest.raises(DatasetError, match=r"labels\.jsonl:1: "):
        Labels(tmp_path)


def config(folder: Path, **options: Any) -> dict[str, Any]:
    parts = {key: {"depth": 100} for key in ("retriever", "signal", "fusion", "retrieval", "reranker")}
    return {"dataset": {"path": "d", "qrels": str(folder / "qrels.tsv")}, **parts, **options}


def test_advise_reads_the_file_beside_the_qrels_and_refuses_a_damaged_one_or_other_orders(tmp_path: Path) -> None:
    labels, file = Labels(tmp_path), tmp_path / "decision.json"
    labels.add(label("a", 0))
    labels.write_qrels()
    found = conclude([1.0, 2.0] * 10, 20)
    verdict = Verdict(orders=orders_of(config(tmp_path)), dataset="d", labels=1, by_models={}, decision=found)
    file.write_text(json.dumps(verdict.model_dump()))
    read = verdict_of(config(tmp_path))
    assert read.text == "The reranker helps: 1 label on 20 queries, confidence 100%."
    with pytest.raises(ConfigError, match="another first stage or reranker"):
        verdict_of(config(tmp_path, reranker={"scores": "other"}))
    for content in ("{}", file.read_text().replace("ragtune-label/1", "ragtune-label/9")):
        file.write_text(content)
        with pytest.raises(DatasetError, match=r"decision\.json' is damaged: repeat ragtune label with --out"):
            verdict_of(config(tmp_path))
    (tmp_path / "qrels.tsv").rename(tmp_path / "mine.tsv")
    assert verdict_of({"dataset": {"qrels": str(tmp_path / "mine.tsv")}}) is None
