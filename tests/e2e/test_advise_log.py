"""ragtune advise on a log of rerank requests: what it sends to an endpoint, and that estimates are no scores."""

import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from rerank_server import KEY, serving

from ragtune.cli.main import main
from ragtune.rerankers.function import FunctionReranker
from ragtune.services.rerank import RerankServer


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, list[int]]]:
    """RAGtune's own server with a budget, and the sizes of the calls of its model."""
    sizes: list[int] = []

    def score(query: str, texts: Sequence[str]) -> list[float]:
        sizes.append(len(texts))
        return [int(text.split()[1]) / 100 for text in texts]

    monkeypatch.setenv("RERANK_API_KEY", KEY)
    server = RerankServer(FunctionReranker(score), "numbers", budget={"docs": 4}, policy="fixed_depth")
    with serving(server) as url:
        yield url, sizes


def log_of(file: Path, requests: int) -> Path:
    draws = random.Random(3)
    lines = []
    for at in range(requests):
        true = [draws.randrange(100) for _ in range(25)]
        documents = [{"text": f"{at} {value} x{place}"} for place, value in enumerate(true)]
        scores = {"bm25": [value + draws.gauss(0, 50) for value in true]}
        lines.append(json.dumps({"query": f"q{at}", "documents": documents, "scores": scores, "model": "any"}))
    file.write_text("\n".join(lines) + "\n")
    return file


def test_a_sample_of_a_log_is_scored_through_a_server_with_a_budget(
    proxy: tuple[str, list[int]], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    url, sizes = proxy
    log = log_of(tmp_path / "queries.jsonl", 24)
    words = ["advise", "--log", str(log), "--endpoint", url, "--max-docs", "510", "--out", str(tmp_path / "o"), "--yes"]
    assert main([*words, "reranker.cache_dir=null"]) != 0, "estimates would pass for scores"
    assert "dialect=ragtune" in capfd.readouterr().err
    sizes.clear()
    assert main([*words, "--jobs", "1", "--dialect", "ragtune"]) == 0
    assert sum(sizes) == 500
    assert "20 queries" in capfd.readouterr().out
    advice = json.loads((tmp_path / "o" / "advice.json").read_text())
    assert (advice["queries"], advice["judged"], advice["pool"]) == (20, False, 25.0)
    assert 0 < advice["recommended"]["budget"] <= 25


@pytest.mark.parametrize(
    ("line", "options", "why"),
    [
        ('{"documents": ["a"]}', [], "line 1: query"),
        ('{"query": "a", "documents": ["a", "b"]}', ["--max-docs", "1"], "fits into --max-docs 1"),
        ('{"query": "a", "documents": [{"title": "b"}]}', [], "has no text"),
    ],
)
def test_a_log_that_cannot_be_sampled_is_refused(
    line: str, options: list[str], why: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "log.jsonl").write_text(line)
    words = ["advise", "--log", str(tmp_path / "log.jsonl"), "--endpoint", "http://localhost:1", "--out", str(tmp_path)]
    assert main([*words, *options]) == 2
    assert why in capfd.readouterr().err
