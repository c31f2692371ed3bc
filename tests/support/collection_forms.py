"""One collection, its first stage and its scores in the forms that people have them in, as their tools write them."""

import gzip
import html
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyterrier as pt

Rows = list[dict[str, Any]]


def lines(file: Path, content: Iterable[str]) -> None:
    data = "".join(f"{line}\n" for line in content).encode()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(gzip.compress(data, mtime=0) if file.suffix == ".gz" else data)


def json_lines(file: Path, rows: Rows) -> None:
    lines(file, map(json.dumps, rows))


def frame(file: Path, rows: Rows, **names: str) -> None:
    """As pandas writes it, by the suffix; ``names`` rename columns."""
    file.parent.mkdir(parents=True, exist_ok=True)
    table = pd.DataFrame(rows).rename(columns=names)
    if file.suffix == ".parquet":
        table.to_parquet(file, index=False)
    else:
        table.to_csv(file, index=False, sep="\t" if ".tsv" in file.name else ",")


def saved(folder: Path, rows: Rows, shards: int = 1) -> None:
    """What ``datasets.Dataset.save_to_disk`` leaves (version 5.2)."""
    folder.mkdir(parents=True)
    each = -(-len(rows) // shards)
    names = [f"data-{i:05d}-of-{shards:05d}.arrow" for i in range(shards)]
    for i, name in enumerate(names):
        table = pa.Table.from_pylist(rows[i * each : (i + 1) * each])
        with pa.OSFile(str(folder / name), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table)
    (folder / "state.json").write_text("{}")
    (folder / "dataset_info.json").write_text("{}")


def saved_splits(folder: Path, splits: Mapping[str, Rows], shards: int = 1) -> None:
    """What ``datasets.DatasetDict.save_to_disk`` leaves."""
    for name, rows in splits.items():
        saved(folder / name, rows, shards)
    (folder / "dataset_dict.json").write_text(json.dumps({"splits": [*splits]}))


def _gz(folder: Path, docs: Rows, queries: Rows, qrels: Rows) -> list[str]:
    json_lines(folder / "corpus.jsonl.gz", docs)
    json_lines(folder / "queries.jsonl.gz", queries)
    rows = ("\t".join(map(str, row.values())) for row in qrels)
    lines(folder / "qrels" / "test.tsv.gz", ["query-id\tcorpus-id\tscore", *rows])
    return []


def _csv(folder: Path, docs: Rows, queries: Rows, qrels: Rows) -> list[str]:
    frame(folder / "corpus.csv", docs)
    frame(folder / "queries.csv.gz", queries, _id="query_id")
    frame(folder / "qrels" / "test.csv", qrels)
    return []


def _trec_tsv(folder: Path, docs: Rows, queries: Rows, qrels: Rows) -> list[str]:
    lines(folder / "docs.tsv", ["docid\ttitle\ttext", *("\t".join(r.values()) for r in docs)])
    lines(folder / "queries.tsv", (f"{row['_id']}\t{row['text']}" for row in queries))
    lines(folder / "qrels.txt", (f"{r['query-id']} 0 {r['corpus-id']} {r['score']}" for r in qrels))
    return [f"dataset.corpus={folder}/docs.tsv", f"dataset.qrels={folder}/qrels.txt"]


def _pyterrier(folder: Path, docs: Rows, queries: Rows, qrels: Rows) -> list[str]:
    frame(folder / "corpus.parquet", docs, _id="docno")
    frame(folder / "queries.parquet", queries, _id="qid", text="query")
    frame(folder / "qrels" / "test.parquet", qrels, **{"query-id": "qid", "corpus-id": "docno", "score": "label"})
    return []


def _hugging_face(folder: Path, docs: Rows, queries: Rows, qrels: Rows) -> list[str]:
    saved_splits(folder / "corpus", {"corpus": docs}, shards=3)
    saved_splits(folder / "queries", {"queries": queries})
    saved_splits(folder / "qrels", {"test": qrels})
    return []


def _hub(folder: Path, docs: Rows, queries: Rows, qrels: Rows) -> list[str]:
    half = len(docs) // 2
    frame(folder / "corpus" / "corpus-00000-of-00002.parquet", docs[:half])
    frame(folder / "corpus" / "corpus-00001-of-00002.parquet", docs[half:])
    frame(folder / "queries" / "queries-00000-of-00001.parquet", queries)
    floats = [{**row, "score": float(row["score"])} for row in qrels]  # as mteb's are
    frame(folder / "qrels" / "test-00000-of-00001.parquet", floats)
    return []


def _sgml(folder: Path, docs: Rows, queries: Rows, qrels: Rows) -> list[str]:
    _gz(folder, docs, [], qrels)
    topic = "<top>\n<num> Number: {id}\n<title> {text}\n\n<desc> Description:\nno\n\n<narr> Narrative: no\n</top>\n"
    lines(folder / "topics.txt", (topic.format(id=r["_id"], text=html.escape(r["text"])) for r in queries))
    return [f"dataset.queries={folder}/topics.txt"]


def _xml(folder: Path, docs: Rows, queries: Rows, qrels: Rows) -> list[str]:
    _csv(folder, docs, [{"_id": "x", "text": "y"}], qrels)
    topic = '<topic number="{id}"><query>no</query>\n<question>{text}</question></topic>'
    each = (topic.format(id=r["_id"], text=html.escape(r["text"])) for r in queries)
    lines(folder / "topics.xml", ['<?xml version="1.0"?>', "<topics>", *each, "</topics>"])
    return [f"dataset.queries={folder}/topics.xml", "dataset.query_fields=question"]


COLLECTIONS: Mapping[str, Callable[[Path, Rows, Rows, Rows], list[str]]] = {
    "gzipped": _gz,
    "csv": _csv,
    "tsv": _trec_tsv,
    "pyterrier": _pyterrier,
    "datasets": _hugging_face,
    "hub": _hub,
    "topics": _sgml,
    "xml": _xml,
}
"""Writes documents, queries and judgments into a folder; the options that it takes besides ``dataset.path``."""


def _flat(run: Mapping[str, Rows]) -> Rows:
    return [row for hits in run.values() for row in hits]


RUNS: Mapping[str, Callable[[Path, Mapping[str, Rows]], None]] = {
    "first.res.gz": lambda file, run: pt.io.write_results(pd.DataFrame(_flat(run)), str(file), format="trec"),
    "first.csv.gz": lambda file, run: frame(file, _flat(run)),
    "first.parquet": lambda file, run: frame(file, _flat(run)),
    "first.jsonl": lambda file, run: lines(file, (json.dumps(row) for row in _flat(run))),
    "first": lambda file, run: saved(file, _flat(run), shards=2),
}
"""Writes a first stage, given as PyTerrier's rows by query, into a file of that name."""
