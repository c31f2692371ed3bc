"""Passages of a run, whose files name documents, and of the rerank API."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from rerank_server import ask, serving

from ragtune.cli.main import main as ragtune
from ragtune.embedders.passages import Passages, spans
from ragtune.rerankers.function import FunctionReranker
from ragtune.services.rerank import RerankServer

LONG = "Bread is baked daily here. Salt is mined in the hills. Green tea is steamed."
TEXTS = {"a": LONG, "a#1": "Tea.", "b": "", "c": f"{LONG} {LONG}"}


@pytest.fixture
def options(tmp_path: Path, tiny_cross_encoder: str) -> list[str]:
    (tmp_path / "qrels").mkdir()
    rows = [{"_id": doc_id, "text": text} for doc_id, text in TEXTS.items()]
    (tmp_path / "corpus.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (tmp_path / "queries.jsonl").write_text('{"_id": "q", "text": "green tea bread"}\n')
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\tc\t1\n")
    model = ["reranker=cross_encoder", f"reranker.model={tiny_cross_encoder}", "reranker.cache_dir=null"]
    return ["dataset=beir", f"dataset.path={tmp_path}", *model, "budget=unlimited", "passages.tokens=8"]


def test_a_run_reads_passages_and_writes_documents_and_is_compared(
    main: Callable, options: list[str], tmp_path: Path
) -> None:
    options += ["passages=all", "vectors@estimator.vectors=candidates"]
    for name, docs in {"run": 100, "short": 1}.items():
        done = main(*options, f"budget.max_reranker_docs={docs}", f"hydra.run.dir={tmp_path / name}")
        assert done.code == 0, done.err
    lines = (tmp_path / "run" / "run.trec").read_text().splitlines()
    assert sorted(line.split()[2] for line in lines) == ["a", "a#1", "c"]
    with gzip.open(tmp_path / "run" / "traces.jsonl.gz", "rt") as traces:
        events = json.loads(traces.readline())["events"]
    (split,) = (event["details"] for event in events if event["action"] == "split")
    read = [doc_id for event in events if event["action"] == "propose" for doc_id in event["details"]["doc_ids"]]
    assert split["documents"] == 3
    assert 3 <= len(read) <= split["passages"]
    assert {doc_id.partition("##")[0] for doc_id in read} == {"a", "a#1", "c"}
    assert (
        ragtune(["compare", *(str(tmp_path / name) for name in ("run", "short")), "--out", str(tmp_path / "out")]) == 0
    )
    assert (tmp_path / "out" / "report.html").exists()


def test_vectors_of_the_collection_and_recorded_scores_are_refused(main: Callable, options: list[str]) -> None:
    refused = main(*options, "passages=best")
    assert refused.code == 2
    assert "vectors@estimator.vectors=candidates" in refused.err
    refused = main("passages=best")
    assert refused.code == 2
    assert "live reranker" in refused.err


def test_a_server_reads_passages_counts_them_and_names_documents() -> None:
    reranker = FunctionReranker(lambda query, texts: [float("steamed" in text) for text in texts])
    request = {"query": "green tea", "documents": ["bread", "", LONG], "return_documents": True}
    count = 2 + len(spans(LONG, 8))
    with serving(RerankServer(reranker, "m", passages=Passages(8), max_documents=3)) as url:
        full, some = (ask(url, "/v1/rerank", request | more).json() for more in ({}, {"budget": {"docs": 3}}))
    assert full["results"][0]["index"] == 2
    assert full["results"][0]["document"] == {"text": LONG}
    assert sorted(one["index"] for one in full["results"]) == [0, 1, 2]
    assert full["ragtune"]["spent"]["docs"] == count  # beyond max_documents, which limits documents
    start, end = full["ragtune"]["passages"]["2"]
    assert "steamed" in LONG[start:end]
    assert (some["ragtune"]["spent"]["docs"], some["ragtune"]["saved"]["docs"]) == (3, count - 3)
