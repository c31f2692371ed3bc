"""A rerank server in the harness: run, bill, forecast, secrets."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from llm_server import Fault

KEY = "rk-canary-7f3a9c51d2"
POLICY = ["dataset=demo", "estimator=uncertainty", "scheduler.batch_size=5", "budget=tight", "reranker=http"]
PRICE = "reranker.usd_per_search_unit=0.002"


def test_a_run_is_billed_by_the_call_and_tells_no_secret(
    run: Callable[..., SimpleNamespace], main: Callable[..., SimpleNamespace], llm_server: Any, tmp_path: Path
) -> None:
    llm_server.faults += [None, Fault("rate_limit"), Fault("unauthorized")]
    given = [*POLICY, PRICE, f"reranker.url={llm_server.rerank_url('cohere')}", "reranker.model=test"]
    folder = tmp_path / "out"
    options = ["tracking=none", f"hydra.run.dir={folder}", "verbosity=2"]
    ended = run(*given, *options, cwd=tmp_path, RERANK_API_KEY=KEY)
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
