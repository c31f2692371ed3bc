"""Budgets in calls, end to end: a policy of windows asks a language model over HTTP, or a comparer that replays."""

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from llm_server import Chat, Fault, Rule

Main = Callable[..., SimpleNamespace]


def by_shared_words(chat: Chat) -> str:
    """A model that orders what it is shown by the words shared with the query."""
    query = set(re.findall(r"\w+", chat.fenced["query"].lower()))
    texts = [text for label, text in chat.fenced.items() if label != "query"]
    shared = [len(query & set(re.findall(r"\w+", text.lower()))) for text in texts]
    return json.dumps({"ranking": [i + 1 for i in sorted(range(len(texts)), key=lambda i: (-shared[i], i))]})


WINDOWS = {"acurank": ["estimator.window=8"], "sliding": ["estimator.window=6", "estimator.step=3"]}


@pytest.fixture
def asked(tiny: list[str], llm_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A model on a server that orders by words, asked once a window."""
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    llm_server.rules.insert(0, Rule(lambda chat: "ranking" in chat.text, by_shared_words))
    model = {
        "model": "test",
        "base_url": llm_server.url,
        "cache_dir": tmp_path / "record",
        "max_retries": 0,
        "breaker_failures": 999,
    }
    options = [f"reranker.llm.{name}={value}" for name, value in model.items()]
    prices = "+reranker.llm.prices.test={prompt: 0.001, completion: 0.002}"
    return [*tiny[:-1], "reranker=llm_listwise", *options, prices, "budget=unlimited", "hydra.run.dir=run"]


@pytest.mark.parametrize("policy", WINDOWS)
def test_a_window_that_a_server_refuses_costs_its_call_and_no_document(
    main: Main, asked: list[str], llm_server: Any, policy: str
) -> None:
    command = [*asked, f"experiment={policy}", *WINDOWS[policy], "budget.max_reranker_calls=8"]
    first_stage = main(*command, "budget.max_reranker_calls=0", "hydra.run.dir=first")
    assert first_stage.code == 0, first_stage.err

    llm_server.faults += [Fault("server_error")] * 999
    dead = main(*command)
    assert dead.code == 1
    # Three queries, then the strategy is closed for the run; acurank shows a window again, which has failed already.
    assert len(llm_server.requests) == (3 * 2 if policy == "acurank" else 3 * 3)
    assert "the reranker failed: 9 of 9 batches, 4 of 4 queries given up" in dead.err
    nothing, something = (json.loads((dead.cwd / folder / "summary.json").read_text()) for folder in ("first", "run"))
    assert something["measures"] == nothing["measures"]
    assert (something["dropped_docs"], something["stop_reasons"]) == (0, {"strategy_closed": 4})

    llm_server.requests.clear()
    llm_server.faults[:] = [Fault("server_error"), None, None] * 99
    mended = main(*command, "resume=true")
    assert mended.code == 0, mended.err
    summary = json.loads((mended.cwd / "run" / "summary.json").read_text())
    assert summary["dropped_docs"] == 0
    assert summary["failures"]["batches_failed"] >= sum(bool(request.fault) for request in llm_server.requests) > 0
    assert len(llm_server.requests) <= summary["cost"]["charged"]["calls"] <= 4 * 8
    assert summary["measures"]["nDCG@10"] > nothing["measures"]["nDCG@10"]


KEY = "rk-canary-7f3a9c51d2"


def test_a_run_is_billed_by_the_call_and_tells_no_secret(
    main: Main, llm_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RERANK_API_KEY", KEY)
    llm_server.faults += [None, Fault("rate_limit"), Fault("unauthorized")]
    given = ["estimator=uncertainty", "scheduler.batch_size=5", "budget=tight", "reranker=http", "reranker.model=test"]
    given += ["reranker.usd_per_search_unit=0.002", f"reranker.url={llm_server.rerank_url('cohere')}"]
    folder = tmp_path / "out"
    ended = main(*given, f"hydra.run.dir={folder}", "verbosity=2")
    assert ended.code == 0, ended.err
    assert {request.headers["authorization"] for request in llm_server.requests} == {f"Bearer {KEY}"}

    summary = json.loads((folder / "summary.json").read_text())
    units = sum(request.search_units for request in llm_server.requests)
    assert summary["cost"]["charged"]["usd"] == pytest.approx(0.002 * units)
    assert summary["cost"]["charged"]["usd"] == summary["cost"]["actual"]["usd"]
    for file in [file for file in tmp_path.rglob("*") if file.is_file()]:
        data = file.read_bytes()
        data += gzip.decompress(data) if file.suffix == ".gz" else b""
        assert KEY.encode() not in data, file
    assert KEY not in ended.out + ended.err
