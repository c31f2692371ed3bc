"""The score cache of the rerank server: it outlives the server, its scores expire, and its figures are shown."""

import time
from pathlib import Path
from typing import Any

import pytest
from llm_server import LLMServer
from rerank_server import HTTP, KEY, ask, serving

from ragtune.data.caches.sqlitecache import SqliteCache
from ragtune.rerankers.http.reranker import HttpReranker
from ragtune.services.rerank import RerankServer

TEXTS = ["Ships have sails.", "Statins lower cholesterol.", "Aspirin thins blood."]


def answer(upstream: str, folder: Path, texts: list[str], ttl_s: float | None = None) -> tuple[Any, str]:
    """The scores by a server that starts with what is in the folder, and the hits and misses that it reports."""
    reranker = HttpReranker(upstream, "test", cache_dir=folder)
    if ttl_s is not None:
        reranker.expire_after(ttl_s)
    with serving(RerankServer(reranker, "test")) as url:
        found = ask(url, "/v2/rerank", {"query": "cholesterol", "documents": texts}).json()["results"]
        hour = HTTP.get(f"{url}/status.json", headers={"X-API-Key": KEY}).json()["hour"]
        figures = HTTP.get(f"{url}/metrics", headers={"X-API-Key": KEY}).text
    assert f'ragtune_rerank_cache_lookups_total{{outcome="hit"}} {hour["cache_hits"]:.1f}' in figures
    return {one["index"]: one["relevance_score"] for one in found}, f"{hour['cache_hits']}, {hour['cache_misses']}"


def test_a_new_server_finds_the_scores_of_the_old_one_until_they_expire(llm_server: LLMServer, tmp_path: Path) -> None:
    upstream = llm_server.rerank_url("cohere")
    first = answer(upstream, tmp_path, TEXTS[:2])
    again = answer(upstream, tmp_path, TEXTS)
    assert (first[1], again[1]) == ("0, 2", "2, 1")
    assert {i: again[0][i] for i in first[0]} == first[0]
    assert [len(one.body["documents"]) for one in llm_server.requests] == [2, 1]
    # Of scores that were kept without a limit nobody knows the age.
    assert [answer(upstream, tmp_path, TEXTS, ttl_s=60.0)[1] for _ in range(2)] == ["0, 3", "3, 0"]
    time.sleep(0.2)
    assert answer(upstream, tmp_path, TEXTS, ttl_s=0.1)[1] == "0, 3"


def test_expired_values_leave_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache: SqliteCache[float] = SqliteCache(tmp_path / "scores.sqlite", "score", "score REAL NOT NULL")
    cache.ttl_s = 10.0
    now = time.time()
    for key, age in ((b"a", 25.0), (b"b", 12.0), (b"c", 5.0)):
        monkeypatch.setattr(time, "time", lambda age=age: now - age)
        cache.put({key: 1.0})
    cache.ttl_s = 1000.0
    assert [*cache.get([b"a", b"b", b"c"])] == [b"b", b"c"]
