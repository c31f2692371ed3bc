"""A forecast prices what a run would do, with nothing spent."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from experiments.config.compose import compose
from experiments.evaluate.record import UNITS
from experiments.publish.terminal import print_forecast
from experiments.replay.forecast import ForecastReranker, forecast
from ragtune.rerankers.replay import ReplayReranker

OVER_HTTP = ["reranker=http", "reranker.url=http://127.0.0.1:9", "reranker.model=m"]


@pytest.mark.parametrize("scheduler", ["greedy", "one_shot"])
def test_where_scores_decide_nothing_the_forecast_is_what_the_run_charges(
    replayed: Callable[..., SimpleNamespace], compose_tiny: Callable[..., dict[str, Any]], scheduler: str
) -> None:
    overrides = (f"scheduler={scheduler}", "reranker.ms_per_doc=3", "reranker.usd_per_doc=0.001")
    run = replayed(*overrides)
    figures = forecast(compose_tiny(*overrides), lambda done, total: None)
    charged = [sum(record.charged[i] for record in run.records) for i in range(len(UNITS))]
    assert [figures["total"].get(unit, 0.0) for unit in UNITS] == pytest.approx(charged)
    assert figures["per_query"]["docs"] == charged[0] / 4
    assert figures["total"]["usd"] > 0


def test_a_policy_that_stops_by_scores_is_forecast_to_stop() -> None:
    config = compose(["experiment=settled", "budget=unlimited", "tracking=none"])
    figures, again = (forecast(config, lambda done, total: None) for _ in range(2))
    assert 10 < figures["per_query"]["docs"] < 35  # 23.6 in the run itself; the pools hold 66
    assert figures == again


def test_no_score_is_ever_asked_for(
    compose_tiny: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def spend(*args: object) -> None:
        raise AssertionError("a forecast spent something")

    monkeypatch.setattr(ReplayReranker, "rerank", spend)
    assert forecast(compose_tiny(), lambda done, total: None)["total"]["docs"] > 0


def test_progress_is_reported_query_by_query(compose_tiny: Callable[..., dict[str, Any]]) -> None:
    seen: list[tuple[int, int]] = []
    forecast(compose_tiny(), lambda done, total: seen.append((done, total)))
    assert seen == [(i, 4) for i in range(1, 5)]


def test_rewriting_that_costs_is_priced_and_not_run(
    compose_tiny: Callable[..., dict[str, Any]], llm_server: Any
) -> None:
    options = ("reformulator=llm_rewrite", f"reformulator.llm.base_url={llm_server.url}")
    free = "reranker.usd_per_doc=0"
    plain = forecast(compose_tiny(free), lambda done, total: None)["total"]
    figures = forecast(compose_tiny(free, *options), lambda done, total: None)["total"]
    assert llm_server.requests == []
    assert figures["tokens"] > plain["tokens"]
    assert figures["usd"] > plain["usd"]


@pytest.mark.parametrize(
    ("options", "unknown"),
    [
        ([], {"latency_ms", "usd"}),
        (["reranker.ms_per_doc=0"], {"usd"}),
        (["reranker.ms_per_call=2", "reranker.usd_per_doc=0"], set()),
        (["reranker=cross_encoder", "reranker.model=/no/such/model"], {"latency_ms", "usd"}),
        (["reranker=cross_encoder", "reranker.model=none", "reranker.ms_per_doc=2"], {"usd"}),
        ([*OVER_HTTP, "reranker.usd_per_search_unit=0.002"], {"latency_ms"}),
        ([*OVER_HTTP, "reranker.usd_per_1k_tokens=0.05", "reranker.ms_per_call=200"], set()),
        (OVER_HTTP, {"latency_ms", "usd"}),
        (["reranker=noop"], set()),
        (["+reranker@rerankers.live=cross_encoder"], {"latency_ms", "usd"}),
        (["reranker.ms_per_call=2", "reranker.usd_per_doc=0", "reformulator=llm_rewrite"], {"latency_ms"}),
        (["reranker=noop", "budget=zero"], set()),
    ],
)
def test_what_has_no_price_is_unknown_rather_than_nothing(
    compose_tiny: Callable[..., dict[str, Any]],
    options: list[str],
    unknown: set[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    figures = forecast(compose_tiny(*options), lambda done, total: None)
    for row in ("total", "per_query"):
        assert {unit for unit, amount in figures[row].items() if amount is None} == unknown
    print_forecast(figures)
    assert capsys.readouterr().out.count("unknown") == 2 * len(unknown)
    assert ("null" in json.dumps(figures)) == bool(unknown)


@pytest.mark.parametrize(("batch", "units"), [(2, 6), (5, 3), (12, 1)])
def test_where_calls_are_billed_the_forecast_shows_what_a_batch_size_costs(
    compose_tiny: Callable[..., dict[str, Any]], batch: int, units: int
) -> None:
    options = [*OVER_HTTP, "reranker.usd_per_search_unit=0.002", "scheduler=greedy", f"scheduler.batch_size={batch}"]
    per_query = forecast(compose_tiny(*options), lambda done, total: None)["per_query"]
    assert (per_query["docs"], per_query["calls"], per_query["usd"]) == (12, units, pytest.approx(0.002 * units))


def test_a_reranker_that_names_no_price_is_no_free_one(fakes: SimpleNamespace, make_context: Any) -> None:
    unknown: set[str] = set()
    ForecastReranker(fakes.Reranker(), unknown).rerank(fakes.items(1), make_context(), "default")
    assert unknown == {"tokens", "latency_ms", "usd"}


def test_the_table_names_every_unit(capsys: pytest.CaptureFixture[str]) -> None:
    costs = {"docs": 1234.0, "calls": 5.0, "tokens": 6.0, "latency_ms": 7.0, "usd": 0.25}
    print_forecast({"dataset": "d", "queries": 2, "total": costs, "per_query": costs})
    out = capsys.readouterr().out
    assert "forecast for d: 2 queries, nothing spent" in out
    assert all(label in out for label in ("documents", "calls", "tokens", "latency (ms)", "money (USD)", "1,234.0"))
