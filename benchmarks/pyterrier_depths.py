"""A depth grid as a PyTerrier user writes it: the script that bench_startup.py compares a sweep with.

    python benchmarks/pyterrier_depths.py DIR FILE DEPTH ...

``DIR`` is a BEIR folder with runs/bm25.run and scores/monot5-base.run; ``FILE`` gets nDCG@10 of each depth as CSV.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
import pyterrier as pt

data, file, depths = Path(sys.argv[1]), sys.argv[2], [int(word) for word in sys.argv[3:]]

found = pt.io.read_results(str(data / "runs" / "bm25.run")).drop(columns=["rank"])
scores = pt.io.read_results(str(data / "scores" / "monot5-base.run"))[["qid", "docno", "score"]]
qrels = pd.read_csv(
    data / "qrels" / "test.tsv",
    sep="\t",
    header=0,
    names=["qid", "docno", "label"],
    dtype={"qid": str, "docno": str, "label": int},
)
topics = pd.read_json(data / "queries.jsonl", lines=True, dtype={"_id": str})
topics = topics.rename(columns={"_id": "qid", "text": "query"})[["qid", "query"]]


class Recorded(pt.Transformer):
    """Replaces the scores of the candidates by the recorded ones."""

    def transform(self, candidates: pd.DataFrame) -> pd.DataFrame:
        return pt.model.add_ranks(candidates.drop(columns=["score", "rank"]).merge(scores, on=["qid", "docno"]))


first = pt.Transformer.from_df(pt.model.add_ranks(found))
table = pt.Experiment(
    [(first % depth >> Recorded()) ^ first for depth in depths],
    topics[topics["qid"].isin(set(qrels["qid"]))],
    qrels,
    eval_metrics=["ndcg_cut_10"],
    names=[str(depth) for depth in depths],
)
table.to_csv(file, index=False)
