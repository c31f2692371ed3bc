"""The summary: totals, means, counts."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from experiments.evaluate.curves import curve
from experiments.evaluate.measures import Measures
from experiments.evaluate.summary import summarize

Replayed = Callable[..., SimpleNamespace]


def summary_of(run: SimpleNamespace) -> dict:
    judged = [record for record in run.records if record.query_id in run.dataset.qrels]
    drawn = curve(judged, Measures(["nDCG@10", "AP"], run.dataset.qrels), resamples=20, level=0.95, seed=0)
    return summarize(run.dataset, run.records, drawn, max_failed_share=0.5)


def test_costs_are_totals_over_the_queries_and_their_means(replayed: Replayed) -> None:
    run = replayed("budget.max_reranker_docs=6", "scheduler.batch_size=2")
    summary = summary_of(run)
    assert summary["queries"] == summary["queries_replayed"] == 4
    assert summary["cost"]["charged"]["docs"] == 24
    assert summary["cost"]["charged"]["calls"] == 12
    assert summary["cost"]["charged"]["tokens"] == sum(record.account["tokens"] for record in run.records) - sum(
        record.context_tokens for record in run.records
    )
    assert summary["cost_per_query"]["charged"]["docs"] == 6
    assert summary["cost"]["actual"] == {"docs": 0, "calls": 0, "tokens": 0, "latency_ms": 0.0, "usd": 0.0}


def test_every_stop_is_counted_under_its_reason(replayed: Replayed) -> None:
    summary = summary_of(replayed("budget.max_reranker_docs=6"))
    assert summary["stop_reasons"] == {"budget_exhausted": 4}


def test_reaching_a_share_of_the_final_quality_is_reported_in_documents(replayed: Replayed) -> None:
    summary = summary_of(replayed("budget=unlimited", "assembler.ordering=reranked_first"))
    assert summary["measures"]["nDCG@10"] == pytest.approx(1.0)
    assert 0 < summary["docs_to_95pct"] <= summary["docs_to_99pct"] <= 12


def test_a_summary_is_plain_json(replayed: Replayed) -> None:
    summary = summary_of(replayed())
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
