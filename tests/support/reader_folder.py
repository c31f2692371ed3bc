"""A reader's folder with what README and docs call DIR, OUT, MODEL, notes and so on."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
from command_line import ROOT

from ragtune.core.types import CostObject
from ragtune.rerankers.calibration import Calibration
from ragtune.services.certificate import certificate, signed
from ragtune.services.shadow import ShadowRecord

CERTIFICATE_KEY = "a key of the test suite, long enough"
DEMO = ROOT / "ragtune" / "data" / "demo"
DEMO_DOCS = [json.loads(line)["_id"] for line in (DEMO / "corpus.jsonl").read_text(encoding="utf-8").splitlines()]


def demo_scores() -> list[tuple[str, str, float]]:
    return list(pd.read_parquet(DEMO / "scores" / "minilm.parquet").itertuples(index=False, name=None))


def write_data(folder: Path) -> None:
    """What the pages expect in a folder with data: a collection, first stages and scores, in several forms."""
    shutil.copytree(DEMO, folder)
    for file in (folder / "queries.jsonl", folder / "qrels" / "test.tsv"):  # every fifth query
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
        file.write_text("".join(line for line in lines if re.search(r"query-id|q\d[16]\b", line)), encoding="utf-8")
    table = pd.DataFrame(demo_scores(), columns=["query_id", "doc_id", "score"])
    table = table.sort_values("score", ascending=False).groupby("query_id").head(30)
    found = table.sample(frac=1, random_state=0)  # a first stage whose order says little
    places = found.groupby("query_id").cumcount() + 1
    lines = zip(found.query_id, found.doc_id, places, strict=True)
    run = "".join(f"{query} Q0 {doc} {place} {31 - place} first\n" for query, doc, place in lines)
    scores = "".join(f"{query} Q0 {doc} 1 {score} ce\n" for query, doc, score in demo_scores())
    (folder / "runs").mkdir()
    for name in ("bm25.run", "runs/bm25.run"):
        (folder / name).write_text(run)
    for name in ("ce.run", "scores/ce.run"):
        (folder / name).write_text(scores)
    table.to_parquet(folder / "runs" / "dense.parquet", index=False)
    pd.DataFrame(demo_scores(), columns=table.columns).to_parquet(folder / "scores" / "ce.parquet", index=False)
    for name in ("scores.csv", "scores/model.csv"):
        table.assign(score=10 * table.score - 4).to_csv(folder / name, index=False)


def write_all(model: str, database: Path) -> None:
    write_data(Path("DIR"))
    Path("notes").symlink_to("DIR")
    Path("docs").symlink_to(ROOT / "docs")
    Path("MODEL").symlink_to(model)
    for name in ("data", "results", "OUT"):
        Path(name).mkdir()
    Path("data/postgres").symlink_to(database)
    Path("results/postgres").symlink_to(database)
    judged = [line.split("\t") for line in Path("DIR/qrels/test.tsv").read_text().splitlines()[1:]]
    Path("OUT/qrels.tsv").write_text("".join("\t".join([q, "0", d, grade]) + "\n" for q, d, grade in judged))
    Path("prices.yaml").write_text("usd_per_doc: 0.0001\n")
    Path("prompt.md").write_text("why is my bread dense")
    Path("dates.csv").write_text("doc_id,value\n" + "".join(f"{i},1\n" for i in DEMO_DOCS))
    Path("minilm.run").write_text("".join(f"{q} Q0 {d} 1 {score} m\n" for q, d, score in demo_scores()))
    np.save("FILE.npy", np.random.default_rng(0).normal(size=(len(DEMO_DOCS), 8)).astype("float32"))
    record = ShadowRecord(
        at="2026-01-01T00:00:00", model="m", policy="uncertainty", budget={"docs": 20}, documents=100, reranked=20,
        overlap=1.0, rbo=1.0, quality=1.0, spent=CostObject(docs=20), full=CostObject(docs=100),
        served_order=(1, 2), full_order=(1, 2),
    )  # fmt: skip
    Path("shadow.jsonl").write_text(record.model_dump_json() + "\n")
    Path("metrics.txt").write_text("# TYPE ragtune_rerank_requests_total counter\n")
    Path("november").mkdir()
    Path("november/certificate.json").write_text(
        signed(certificate(Path("shadow.jsonl"), Path("metrics.txt")), CERTIFICATE_KEY.encode())
    )
    requests = ({"query": f"q{i}", "documents": [f"{i} {j * 7 % 30}" for j in range(30)]} for i in range(12))
    Path("queries.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in requests))
    curve = Calibration(model="MODEL", method="isotonic", scores=(0.0, 1.0), probabilities=(0.0, 0.5))
    Path("results/calibration").mkdir()
    for file in ("calibration.json", "results/calibration/NAME.json"):
        Path(file).write_text(curve.model_dump_json())
