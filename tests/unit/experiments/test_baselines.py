"""A run beside what it has to beat."""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from experiments.evaluate import baselines as evaluations
from experiments.evaluate.baselines import FULL, Evaluation, compare, compare_queries, depth_line
from experiments.evaluate.curves import Curve, Steps, curve
from experiments.evaluate.measures import Measures
from experiments.evaluate.record import BaselineReplay, QueryRecord
from experiments.evaluate.significance import Bootstrap
from experiments.evaluate.summary import Comparison
from experiments.replay.build import session_for
from experiments.replay.records import baselines_of as replay_baselines
from experiments.replay.records import is_fixed_depth
from ragtune.core.component import RerankerFacts
from ragtune.core.errors import ScoreTableError
from ragtune.core.pool.items import PoolItem
from ragtune.core.types import CostObject
from ragtune.reformulators.identity import IdentityReformulator
from ragtune.rerankers.noop import NoOpReranker
from ragtune.rerankers.replay import ReplayReranker

Replayed = Callable[..., SimpleNamespace]
SETTINGS: dict[str, Any] = {"resamples": 50, "level": 0.95, "seed": 0}


def baselines_of(run: SimpleNamespace) -> dict[str, list[BaselineReplay]]:
    return dict(replay_baselines(run.config, session_for(run.config))(run.dataset.judged))


def measured(run: SimpleNamespace) -> tuple[list[QueryRecord], Curve, Measures]:
    records = [record for record in run.records if record.query_id in run.dataset.qrels]
    measures = Measures(["nDCG@10", "AP"], run.dataset.qrels)
    drawn = curve(Steps.of(records, measures), measures.names, Bootstrap(**SETTINGS))
    return records, drawn, measures


def compared(run: SimpleNamespace) -> tuple[Curve, dict[str, Comparison]]:
    records, drawn, measures = measured(run)
    return drawn, compare(drawn, compare_queries(records, baselines_of(run), measures), Bootstrap(**SETTINGS))


@pytest.mark.parametrize("limit", ["max_reranker_docs=6", "max_tokens=60"])
def test_each_baseline_is_what_its_own_experiment_replays_under_the_same_budget(replayed: Replayed, limit: str) -> None:
    run = replayed("experiment=uncertainty", f"budget.{limit}", "scheduler.batch_size=2")
    found = baselines_of(run)
    for name, overrides in {
        "fixed depth": ["experiment=fixed_depth", f"budget.{limit}"],
        "interpolated fixed depth": ["experiment=interpolated_fixed_depth", f"budget.{limit}"],
        "full reranking": ["experiment=fixed_depth", "budget=unlimited"],
    }.items():
        own = replayed(*overrides)
        expected = {record.query_id: (record.ranking, record.charged[0]) for record in own.records}
        assert [ranked.query_id for ranked in found[name]] == run.dataset.judged
        assert all((ranked.ranking, ranked.docs) == expected[ranked.query_id] for ranked in found[name])


def test_a_later_job_without_a_limit_has_the_same_baselines(replayed: Replayed) -> None:
    first = baselines_of(run := replayed("experiment=uncertainty", "budget=unlimited"))
    assert [*first] == ["fixed depth", "interpolated fixed depth", "full reranking"]
    assert baselines_of(run) == first


def test_the_difference_has_an_interval_and_a_corrected_p(replayed: Replayed) -> None:
    run = replayed("experiment=uncertainty", "budget.max_reranker_docs=4", "scheduler.batch_size=2")
    drawn, found = compared(run)
    assert list(found) == ["fixed depth", "interpolated fixed depth", "full reranking"]
    for against in found.values():
        for j, name in enumerate(drawn.measures):
            low, high = against.interval[name]
            assert against.difference[name] == pytest.approx(drawn.mean[-1, j] - against.measures[name])
            assert low <= against.difference[name] <= high
            assert 0 < against.p[name] <= against.p_holm[name] <= 1
    assert found["fixed depth"].docs_per_query == 4
    assert found["full reranking"].docs_per_query == 12


def test_the_line_of_fixed_depth_is_that_of_runs_at_each_depth(replayed: Replayed) -> None:
    run = replayed("experiment=uncertainty", "budget.max_reranker_docs=6", "scheduler.batch_size=2")
    _, drawn, measures = measured(run)
    everything = baselines_of(run)["full reranking"]
    line = depth_line([everything[:1], everything[1:]], drawn, measures)
    assert list(line) == drawn.docs.tolist() == [0, 2, 4, 6]
    for depth, headline in line.items():
        budget = f"budget.max_reranker_docs={depth}"
        _, own, _ = measured(replayed("experiment=fixed_depth", budget))
        assert headline == pytest.approx(own.mean[-1, 0])
    assert len(set(line.values())) > 1


def test_only_fixed_depth_is_measured_at_every_depth(replayed: Replayed) -> None:
    for overrides in (["experiment=uncertainty"], ["experiment=fixed_depth", "assembler.ordering=final_score"]):
        assert not is_fixed_depth(session_for(replayed(*overrides).config))


def test_where_a_reranker_is_live_nothing_is_spent_on_comparisons(
    replayed: Replayed, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = replayed("experiment=uncertainty", "budget.max_reranker_docs=4", "reranker=noop")
    assert baselines_of(run)
    monkeypatch.setattr(NoOpReranker, "facts", RerankerFacts())
    assert baselines_of(run) == {}
    assert compared(run)[1] == {}


def test_a_table_need_only_hold_what_the_policy_asks_for(replayed: Replayed, monkeypatch: pytest.MonkeyPatch) -> None:
    run = replayed("experiment=fixed_depth", "budget.max_reranker_docs=3", "seed=1")
    rerank = ReplayReranker.rerank

    def short_table(self: ReplayReranker, items: Sequence[PoolItem], *others: Any) -> dict[str, float]:
        if len(items) > 3:
            raise ScoreTableError("no score")
        return rerank(self, items, *others)

    monkeypatch.setattr(ReplayReranker, "rerank", short_table)
    assert list(baselines_of(run)) == ["fixed depth", "interpolated fixed depth"]


def test_a_model_that_rewrites_queries_is_not_asked_again(replayed: Replayed, monkeypatch: pytest.MonkeyPatch) -> None:
    run = replayed("experiment=uncertainty", "budget.max_reranker_docs=4")
    monkeypatch.setattr(IdentityReformulator, "expected_cost", lambda *_: CostObject(tokens=9), raising=False)
    assert baselines_of(run) == {}


def test_a_baseline_that_cannot_answer_a_later_query_is_left_out_of_all(
    replayed: Replayed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = replayed("experiment=uncertainty", "budget.max_reranker_docs=6", "scheduler.batch_size=2")
    records, drawn, measures = measured(run)
    last = run.dataset.judged[-1]

    def beaten(query_ids: Sequence[str]) -> dict[str, Sequence[BaselineReplay]]:
        found = replay_baselines(run.config, session_for(run.config))(query_ids)
        return {name: found[name] for name in found if name != FULL or last not in query_ids}

    found = Evaluation(run.dataset, measures, beaten, tmp_path)
    monkeypatch.setattr(evaluations, "TOGETHER", 1)
    for record in records:
        found.add(record)
    assert list(found.compared()) == ["fixed depth", "interpolated fixed depth"]
    assert found.depth_line(drawn) is None
