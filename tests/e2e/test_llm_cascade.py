"""Language models in the harness: one budget, a record that replays, faults, secrets."""

import gzip
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from llm_server import Fault

Main = Callable[..., SimpleNamespace]

KEY = "sk-canary-7f3a9c51d2"
PASSWORD = "canary-password-88"
EVERY = 1 if "CHAOS_EXAMPLES" in os.environ else 16
QUERIES = len(range(0, 200, EVERY))
SUBJECTS = ["heart", "blood", "salt", "ship", "rope", "bread", "honey", "tea", "star", "anchor"]
VERBS = ["lowers", "raises", "ties", "bakes", "heals", "warms", "mends", "feeds", "moves", "lights"]
MODEL = {"model": "test", "max_retries": 2, "backoff_initial_s": 0, "breaker_failures": 1000000}

RESULTS = ("run.trec", "curve.csv", "curve.png", "traces.jsonl.gz")
"""Files that say what was found and charged; the others also say what this very run paid and how it was told to."""


def llm(node: str, **options: Any) -> list[str]:
    given = [f"{node}.{name}={value}" for name, value in {**MODEL, **options}.items()]
    return [*given, f"+{node}.prices.test={{prompt:0.001,completion:0.002}}"]


@pytest.fixture(autouse=True)
def canary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


@pytest.fixture(scope="module")
def many_queries(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Overrides that choose 40 documents and the queries, no two alike."""
    folder = tmp_path_factory.mktemp("many")
    (folder / "qrels").mkdir()
    pairs = [(s, v) for s in SUBJECTS for v in VERBS]
    documents = [
        {
            "_id": f"d{i:02d}",
            "text": f"The {s} {v} the {SUBJECTS[(i * 3 + 1) % 10]}, {VERBS[i % 7]} in year {1900 + i}.",
        }
        for i, (s, v) in enumerate(pairs[::5] + pairs[2::5])
    ]
    queries = [*(f"what {v} the {s}" for s, v in pairs), *(f"which {s} {v} most" for s, v in pairs)][::EVERY]
    assert len(set(queries)) == QUERIES
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in documents))
    (folder / "queries.jsonl").write_text(
        "".join(json.dumps({"_id": f"q{i}", "text": text}) + "\n" for i, text in enumerate(queries))
    )
    judged = [f"q{i}\td{i % 40:02d}\t1\n" for i in range(QUERIES)]
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(judged))
    return [
        "dataset=beir",
        f"dataset.path={folder}",
        "retriever=bm25",
        "retrieval.original_query_depth=10",
        "estimator=baseline",
    ]


def summary_of(ended: SimpleNamespace) -> dict[str, Any]:
    assert ended.code == 0, ended.err
    summary: dict[str, Any] = json.loads((folder_of(ended) / "summary.json").read_text())
    return summary


def folder_of(ended: SimpleNamespace) -> Path:
    return ended.cwd / ended.lines[-1]


def traces_of(ended: SimpleNamespace) -> Iterator[list[dict[str, Any]]]:
    with gzip.open(folder_of(ended) / "traces.jsonl.gz", "rt") as file:
        for line in file:
            yield json.loads(line)["events"]


@pytest.fixture
def in_cascade(tiny: list[str], tiny_cross_encoder: str, llm_server: Any, tmp_path: Path) -> list[str]:
    """Overrides: a cross-encoder explores, a language model judges the likely winners."""
    return [
        *tiny,
        "scheduler=cascade",
        "scheduler.min_docs=2",
        "scheduler.escalate_above=0.2",
        "+scheduler.limits.llm=4",
        "reranker=cross_encoder",
        f"reranker.model={tiny_cross_encoder}",
        "reranker.device=cpu",
        "reranker.usd_per_1k_tokens=0.0001",
        "+reranker@rerankers.llm=llm_pointwise",
        *llm("rerankers.llm.llm", cache_dir=tmp_path / "record", base_url=llm_server.url),
        "budget=unlimited",
    ]


def test_the_cascade_runs_under_one_budget_and_its_curve_shows_tokens_and_money(
    main: Main, in_cascade: list[str], llm_server: Any, tmp_path: Path, empty_store: Path
) -> None:
    from mlflow import MlflowClient

    limits = ["budget.max_tokens=3000", "budget.max_cost_usd=0.004", "budget.max_reranker_docs=9"]
    uri = f"sqlite:///{shutil.copy(empty_store, tmp_path)}"
    ended = main(*in_cascade, *limits, f"tracking.uri={uri}", tracked=True)
    summary = summary_of(ended)
    strategies = [e["details"]["strategy"] for events in traces_of(ended) for e in events if e["action"] == "rerank"]
    assert set(strategies) == {"default", "llm"}
    assert llm_server.requests

    queries = pd.read_parquet(folder_of(ended) / "per_query.parquet")
    assert (queries["charged_tokens"] <= 3000).all()
    assert (queries["charged_usd"] <= 0.004 + 1e-9).all()
    assert (queries["charged_docs"] <= 9).all()
    assert summary["cost"]["charged"]["usd"] > 0

    steps = pd.read_csv(folder_of(ended) / "curve.csv")
    for unit in ("tokens", "usd"):
        assert steps[unit].is_monotonic_increasing
        assert steps[unit].iloc[-1] == pytest.approx(summary["cost_per_query"]["charged"][unit])
    assert "tokens" in ended.out
    assert "US$" in ended.out
    client = MlflowClient(tracking_uri=uri)
    for unit in ("tokens", "usd", "calls"):
        logged = client.get_metric_history(summary["mlflow_run_id"], f"cost/{unit}")
        assert [(m.step, m.value) for m in sorted(logged, key=lambda m: m.step)] == list(
            zip(steps["documents"], steps[unit], strict=True)
        )


def test_no_secret_reaches_any_file_table_log_or_store(
    main: Main,
    in_cascade: list[str],
    llm_server: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    empty_store: Path,
) -> None:
    address = llm_server.url.removeprefix("http://")
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://someone:{PASSWORD}@{address}")
    # A server that quotes what it was sent, in an error and in an answer.
    llm_server.faults += [None, Fault("unauthorized"), Fault("unauthorized")]
    llm_server.answer(lambda chat: json.dumps({"grade": 2, "key": KEY, "password": PASSWORD}))
    by_environment = ["rerankers.llm.llm.base_url=null", "reformulator=llm_rewrite"]
    by_environment += llm("reformulator.llm", cache_dir=tmp_path / "record")
    uri = f"sqlite:///{shutil.copy(empty_store, tmp_path)}"
    ended = main(*in_cascade, *by_environment, f"tracking.uri={uri}", "verbosity=2", tracked=True)
    summary_of(ended)
    assert llm_server.requests
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert {"mlflow.db", "answers.sqlite", "config.yaml", "traces.jsonl.gz"} <= {file.name for file in files}
    for secret in (KEY, PASSWORD):
        assert secret not in ended.out + ended.err
        for file in files:
            data = file.read_bytes()
            data += gzip.decompress(data) if file.suffix == ".gz" else b""
            assert secret.encode() not in data, file


@pytest.mark.parametrize(
    ("reranker", "policy"),
    [
        ("llm_pointwise", ["scheduler=greedy", "scheduler.batch_size=2"]),
        ("llm_setwise", ["scheduler=one_shot", "reranker.set_size=3", "reranker.top_k=2"]),
        ("llm_listwise", ["estimator=tourrank", "scheduler=windows", "budget.max_reranker_docs=50"]),
    ],
)
def test_many_queries_end_in_a_defined_state_and_replay_byte_by_byte(
    main: Main, many_queries: list[str], llm_server: Any, tmp_path: Path, reranker: str, policy: list[str]
) -> None:
    llm_server.fail_randomly(0.3, seed=7)
    models = [*llm("reranker.llm"), *llm("reformulator.llm")]
    models += [f"{node}.llm.{option}" for node in ("reranker", "reformulator") for option in (
        f"base_url={llm_server.url}", f"cache_dir={tmp_path / 'record'}"
    )]  # fmt: skip
    limits = ["budget=unlimited", "budget.max_reranker_docs=4", "budget.charge_failures=true"]
    command = [*many_queries, f"reranker={reranker}", "reformulator=llm_rewrite", *models, *limits, *policy]
    first = main(*command)
    summary = summary_of(first)

    # Every query ended, most documents were judged, and the rest is accounted for.
    queries = pd.read_parquet(folder_of(first) / "per_query.parquet")
    assert len(queries) == QUERIES
    ends = {"budget_exhausted", "pool_exhausted"}
    ends |= {"strategy_closed", "nothing_to_compare"} if "scheduler=windows" in policy else set()
    assert set(queries["stop_reason"]) <= ends
    lost, compares = summary["dropped_docs"], reranker != "llm_pointwise"
    assert lost == 0 if compares else 0 < lost < summary["cost"]["charged"]["docs"] / 2
    assert llm_server.requests
    assert sum(request.fault is not None for request in llm_server.requests) > 0.2 * len(llm_server.requests)

    # Every answer was paid for once and charged once.
    assert summary["cost"]["actual"]["tokens"] == llm_server.billed_tokens
    assert summary["cost"]["charged"]["tokens"] == llm_server.billed_tokens
    assert summary["cost"]["charged"]["usd"] == pytest.approx(summary["cost"]["actual"]["usd"])

    # The record replays as it was, without a request, and twice the same.
    llm_server.requests.clear()
    modes = ["reranker.llm.mode=replay", "reformulator.llm.mode=replay"]
    replays = [main(*command, *modes) for _ in range(2)]
    assert summary_of(replays[0])["cost"]["actual"] == dict.fromkeys(summary["cost"]["actual"], 0)
    assert summary_of(replays[0])["cost"]["charged"] == summary["cost"]["charged"]
    assert llm_server.requests == []
    for name in RESULTS:
        assert (folder_of(first) / name).read_bytes() == (folder_of(replays[0]) / name).read_bytes(), name
    for name in (*RESULTS, "config.yaml", "per_query.parquet"):
        assert (folder_of(replays[0]) / name).read_bytes() == (folder_of(replays[1]) / name).read_bytes(), name
    paid = [column for column in queries if column.startswith("actual_")]
    replayed = pd.read_parquet(folder_of(replays[0]) / "per_query.parquet")
    pd.testing.assert_frame_equal(queries.drop(columns=paid), replayed.drop(columns=paid))
