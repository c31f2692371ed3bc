"""The same collection in every form gives the same results to the last byte."""

import json
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
from collection_forms import COLLECTIONS, RUNS
from command_line import ROOT

from experiments.config.compose import compose
from experiments.prepare.score_table import write_table
from experiments.replay.build import build_session
from ragtune.core.request.budget import CostBudget
from ragtune.core.request.context import RAGtuneContext

DEMO = ROOT / "datasets" / "demo"
COMMON = ["dataset=beir", "dataset.every=10", "retriever=runs", "estimator=uncertainty", "budget=tight"]


@pytest.fixture(scope="module")
def demo() -> SimpleNamespace:
    """The shipped collection as rows, BM25's first 30 documents of each query as PyTerrier's rows, and its scores."""
    session = build_session(compose(["dataset=demo", "estimator=baseline"]))
    run = {}
    for query_id, query in session.dataset.queries.items():
        context = RAGtuneContext(query=query, query_id=query_id, tracker=CostBudget.unlimited().create_tracker())
        found = session.controller.rounds.retriever.retrieve(context, 30)
        run[query_id] = [
            {"qid": query_id, "query": query, "docno": doc.id, "score": doc.score, "rank": rank}
            for rank, doc in enumerate(found)
        ]
    rows = {part: [json.loads(line) for line in (DEMO / f"{part}.jsonl").open()] for part in ("corpus", "queries")}
    judged = [line.split("\t") for line in (DEMO / "qrels" / "test.tsv").read_text().splitlines()[1:]]
    return SimpleNamespace(
        docs=[{key: row.get(key, "") for key in ("_id", "title", "text")} for row in rows["corpus"]],
        queries=[{key: row[key] for key in ("_id", "text")} for row in rows["queries"]],
        qrels=[{"query-id": q, "corpus-id": d, "score": int(grade)} for q, d, grade in judged],
        run=run,
        first={},  # the results of the first run, with which all others are compared
        scores=[tuple(row.values()) for row in pq.read_table(DEMO / "scores" / "minilm.parquet").to_pylist()],
    )


def results(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in ("run.trec", "curve.csv", "per_query.parquet")}


@pytest.mark.parametrize(
    ("collection_form", "run_form", "table"),
    [
        ("plain", "first.run", "minilm.parquet"),
        *zip(COLLECTIONS, cycle(RUNS), cycle(["t.run", "t.parquet"]), strict=False),
    ],
)
def test_a_collection_gives_the_same_results_in_every_form(
    demo: SimpleNamespace,
    main: Callable[..., SimpleNamespace],
    tmp_path: Path,
    collection_form: str,
    run_form: str,
    table: str,
) -> None:
    folder, more = DEMO, []
    first, scores = tmp_path / run_form, tmp_path / table
    if collection_form == "plain":
        lines = [f"{q} Q0 {r['docno']} {r['rank']} {r['score']!r} x\n" for q, rows in demo.run.items() for r in rows]
        first.write_text("".join(lines))
        scores = DEMO / "scores" / table
    else:
        folder = tmp_path / "demo"
        folder.mkdir()
        more = COLLECTIONS[collection_form](folder, demo.docs, demo.queries, demo.qrels)
        RUNS[run_form](first, demo.run)
        write_table(scores, demo.scores, json.loads(_manifest()))
    out = tmp_path / "out"
    options = [f"dataset.path={folder}", f"retriever.paths={first}", f"reranker.scores={scores}", *more]
    done = main(*COMMON, *options, f"hydra.run.dir={out}")
    assert done.code == 0, done.err
    assert results(out) == demo.first.setdefault("results", results(out))
    inputs = json.loads((out / "summary.json").read_text())["inputs"]
    assert all(any(file.startswith(str(path)) for file in inputs) for path in (folder, first, scores))


def _manifest() -> str:
    return (DEMO / "scores" / "minilm.parquet.manifest.json").read_text()
