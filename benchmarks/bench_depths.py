"""A grid of 20 depths in one process, beside PyTerrier's equal pipelines: configurations of a query a CPU second.

    python benchmarks/bench_depths.py [--data ../shared/data/dl19] [--times 1 10] [--repeats 5] [--json FILE]

``DIR`` is a BEIR folder with runs/bm25.run and scores/monot5-base.run; its queries are repeated under other names for
larger grids. All files are read beforehand. Ours is one anytime replay in batches of the grid's step, which passes all
depths. The largest difference in mean nDCG@10 at any depth is printed, and must be rounding.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from machine import report
from pyterrier_depths import grid
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from experiments.config.compose import compose
from experiments.evaluate.rankings import States
from experiments.evaluate.record import QueryRecord
from experiments.replay.build import build_session, load_measures
from experiments.replay.records import records_of

DL19 = Path(__file__).resolve().parents[2] / "shared" / "data" / "dl19"
STEP, DEPTHS = 5, 20


def repeated(data: Path, folder: Path, times: int) -> None:
    """A collection with every query ``times`` times, each under a name of its own."""
    for name in ("qrels", "runs", "scores"):
        (folder / name).mkdir(parents=True)
    (folder / "corpus.jsonl").symlink_to(data / "corpus.jsonl")
    queries = [json.loads(line) for line in (data / "queries.jsonl").read_text(encoding="utf-8").splitlines()]
    names = range(times)
    copies = [{**query, "_id": f"{query['_id']}x{i}"} for i in names for query in queries]
    (folder / "queries.jsonl").write_text("".join(json.dumps(query) + "\n" for query in copies), encoding="utf-8")
    for file, separator, head in (
        ("qrels/test.tsv", "\t", 1),
        ("runs/bm25.run", " ", 0),
        ("scores/monot5-base.run", " ", 0),
    ):
        lines = (data / file).read_text(encoding="utf-8").splitlines()
        rows = [line.replace("\t", " ").split(" ", 1) for line in lines[head:]]
        made = (f"{query}x{i} {rest}".replace(" ", separator) for i in names for query, rest in rows)
        (folder / file).write_text("\n".join([*lines[:head], *made]) + "\n", encoding="utf-8")


def anytime(data: Path) -> tuple[Callable[[], Any], int]:
    """Mean nDCG@10 at each depth by one replay a query, as a function, and the number of queries."""
    config = compose(
        [
            *("dataset=beir", f"dataset.path={data}", "measures=[nDCG@10]", "tracking=none"),
            *("retriever=runs", f"retriever.paths={data}/runs/bm25.run", "assembler.ordering=reranked_first"),
            *(f"reranker.scores={data}/scores/monot5-base.run", "reranker.scale=log_prob"),
            *("estimator=baseline", "scheduler=greedy", f"scheduler.batch_size={STEP}", "budget=unlimited"),
        ]
    )
    session, measures = build_session(config), load_measures(config)
    judged = session.dataset.judged

    def run() -> Any:
        states = map(_states, records_of(session, judged, traced=False))
        return measures.of_states(states).reshape(len(judged), DEPTHS, -1)[:, :, 0].mean(axis=0)

    return run, len(judged)


def _states(record: QueryRecord) -> States:
    """The query's ranking at each depth; a shorter list of candidates stays as it ended."""
    orders = [record.rankings[min(step, len(record.rankings) - 1)][:10] for step in range(1, DEPTHS + 1)]
    return States(record.query_id, record.doc_ids, orders)


def measured(data: Path, repeats: int) -> dict[str, float]:
    """Both by turns; medians."""
    ours, queries = anytime(data)
    theirs = grid(data, range(STEP, STEP * DEPTHS + 1, STEP))
    difference = float(np.abs(ours() - theirs()["ndcg_cut_10"].to_numpy()).max())
    taken: dict[str, list[float]] = {"ragtune": [], "pyterrier": []}
    for _ in range(repeats):
        for name, work in (("ragtune", ours), ("pyterrier", theirs)):
            gc.collect()
            started = time.process_time()
            work()
            taken[name].append(time.process_time() - started)
    rates = {name: round(queries * DEPTHS / statistics.median(times)) for name, times in taken.items()}
    ratios = (peer / own for own, peer in zip(taken["ragtune"], taken["pyterrier"], strict=True))
    return {"queries": queries, **rates, "ratio": round(statistics.median(ratios), 2), "largest difference": difference}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DL19)
    parser.add_argument("--times", type=int, nargs="+", default=[1, 10], help="each query so many times")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    arguments = parser.parse_args()
    figures = {}
    if not arguments.data.is_dir():
        print(f"no collection in {arguments.data}: left out")
    with threadpool_limits(1), tempfile.TemporaryDirectory() as folder:
        for times in arguments.times if arguments.data.is_dir() else ():
            repeated(arguments.data.resolve(), data := Path(folder) / str(times), times)
            figures[f"{DEPTHS} depths, each query {times} times"] = row = measured(data, arguments.repeats)
            print(row, flush=True)
    report(figures, arguments.json)


if __name__ == "__main__":
    main()
