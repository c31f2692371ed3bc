"""A depth grid as a PyTerrier user writes it: the script that bench_startup.py and bench_depths.py compare with.

    python benchmarks/pyterrier_depths.py DIR FILE DEPTH ...

``DIR`` is a BEIR folder with runs/bm25.run and scores/monot5-base.run; ``FILE`` gets nDCG@10 of each depth as CSV.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd
import pyterrier as pt


class Recorded(pt.Transformer):
    """Replaces the scores of the candidates by the recorded ones."""

    def __init__(self, scores: pd.DataFrame) -> None:
        self._scores = scores

    def transform(self, candidates: pd.DataFrame) -> pd.DataFrame:
        known = candidates.drop(columns=["score", "rank"]).merge(self._scores, on=["qid", "docno"])
        return pt.model.add_ranks(known)


def grid(data: Path, depths: Sequence[int]) -> Callable[[], pd.DataFrame]:
    """The experiment over the files of ``data``, which are read now."""
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
    topics = topics[topics["qid"].isin(set(qrels["qid"]))]
    first = pt.Transformer.from_df(pt.model.add_ranks(found))
    systems = [(first % depth >> Recorded(scores)) ^ first for depth in depths]
    names = [str(depth) for depth in depths]
    return lambda: pt.Experiment(systems, topics, qrels, eval_metrics=["ndcg_cut_10"], names=names)


if __name__ == "__main__":
    grid(Path(sys.argv[1]), [int(word) for word in sys.argv[3:]])().to_csv(sys.argv[2], index=False)
