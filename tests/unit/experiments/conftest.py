"""A small collection through the harness, without a process of its own."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from experiments.config.compose import compose
from experiments.config.options import RunConfig
from experiments.evaluate.summary import Summary
from experiments.replay.build import session_for
from experiments.replay.component import component
from experiments.replay.inputs import identity
from experiments.replay.journal import Journal
from experiments.replay.records import replay


@pytest.fixture
def compose_tiny(collection: Path) -> Callable[..., dict[str, Any]]:
    """The configuration of a run on the small collection, overrides added."""

    def make(*overrides: str) -> dict[str, Any]:
        fixed = ["dataset=beir", f"dataset.path={collection}", f"dataset.scores={collection}/scores.run"]
        first_stage = ["retriever=runs", f"retriever.paths={collection}/bm25.run", "estimator=baseline"]
        return compose([*fixed, *first_stage, "tracking=none", *overrides])

    return make


@pytest.fixture
def replayed(compose_tiny: Callable[..., dict[str, Any]], tmp_path: Path) -> Callable[..., SimpleNamespace]:
    def run(*overrides: str) -> SimpleNamespace:
        config = RunConfig(compose_tiny(*overrides))
        folder = tmp_path / "journal"
        folder.mkdir(exist_ok=True)
        with Journal(folder, identity(config), resume=False) as journal:
            dataset = session_for(config).dataset
            query_ids = list(dataset.queries)
            replay(
                component(config, "executor"),
                config,
                query_ids,
                journal,
                lambda done, total: None,
                lambda records: None,
            )
            records = [journal.finished[query_id] for query_id in query_ids]
        return SimpleNamespace(config=config, dataset=dataset, records=records)

    return run


SUMMARY: dict[str, Any] = {
    "dataset": "tiny/test",
    "queries": 4,
    "queries_replayed": 5,
    "warnings": {},
    "measures": {"nDCG@10": 0.8125, "AP": 0.5},
    "interval": {"nDCG@10": [0.7, 0.9], "AP": [0.4, 0.6]},
    "first_stage": {"nDCG@10": 0.5, "AP": 0.25},
    "cost": {
        "charged": {"docs": 50, "calls": 12, "tokens": 1824, "latency_ms": 312.0, "usd": 0.0492},
        "actual": {"docs": 0, "calls": 0, "tokens": 0, "latency_ms": 0.0, "usd": 0.0},
    },
    "cost_per_query": {
        "charged": {"docs": 12.5, "calls": 3, "tokens": 456, "latency_ms": 78.0, "usd": 0.0123},
        "actual": {"docs": 0, "calls": 0, "tokens": 0, "latency_ms": 0.0, "usd": 0.0},
    },
    "context_per_query": {"docs": 8.0, "tokens": 900.5},
    "aucc": 0.4,
    "docs_to_95pct": 8,
    "docs_to_99pct": None,
    "stop_reasons": {"budget_exhausted": 3, "top_k_settled": 1},
    "tied_share": None,
    "dropped_docs": 0,
    "latency_overrun_ms": {"queries": 0, "mean": 0.0, "max": 0.0},
    "failures": {
        "batches_sent": 4,
        "batches_failed": 1,
        "queries_given_up": 0,
        "share": 0.25,
        "first_error": "no answer",
        "status": "finished",
    },
    "policy": "baseline + greedy",
    "overrides": ["seed=0"],
    "documents": 12,
    "corpus_digest": "d" * 64,
    "seed": 0,
    "tags": {"git_sha": "abc", "dataset": "tiny/test", "estimator": "baseline"},
    "fingerprint": "f" * 64,
    "settings": "s" * 64,
    "inputs": {"tiny/corpus.jsonl": "c" * 64},
    "wall_s": 0.1,
    "mlflow_run_id": None,
}
"""What ``summary.json`` says, every field and in the order of the file."""


@pytest.fixture(scope="session")
def make_summary() -> Callable[..., Summary]:
    return lambda **fields: Summary.model_validate(SUMMARY | fields)
