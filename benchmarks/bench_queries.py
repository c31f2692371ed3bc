"""Many queries through the harness: what one more query costs, and whether that stays so as they grow.

    python benchmarks/bench_queries.py [--queries 1000 4000] [--repeats 3] [--json FILE]

Runs are whole (`run_experiment`: replayed, measured, compared with its incumbents, written), each in a process of its
own over generated queries with 100 candidates. What a query costs is the slope between the smallest and the largest
number of queries, in CPU seconds. Reading the collection, its run and its score table comes before, and is a figure of
its own.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS, CANDIDATES, JUDGED = 2000, 100, 10
POLICIES = {
    "fixed depth": ["experiment=fixed_depth"],
    "greedy 10 x 10": ["estimator=baseline", "scheduler.batch_size=10"],
    "score oracle 10 x 10": ["experiment=score_oracle", "scheduler.batch_size=10"],
}


def generate(folder: Path, queries: int) -> None:
    """A BEIR folder with a run and a score table of as many queries, the same ones every time."""
    rng = np.random.default_rng(0)
    for name in ("qrels", "runs", "scores"):
        (folder / name).mkdir(parents=True)
    lines = (
        json.dumps({"_id": f"d{i}", "title": "", "text": f"passage {i} of a collection"}) for i in range(DOCUMENTS)
    )
    (folder / "corpus.jsonl").write_text("\n".join(lines) + "\n")
    names = [f"q{i}" for i in range(queries)]
    (folder / "queries.jsonl").write_text("".join(json.dumps({"_id": q, "text": f"query {q}"}) + "\n" for q in names))
    with (
        (folder / "qrels" / "test.tsv").open("w") as qrels,
        (folder / "runs" / "first.run").open("w") as first,
        (folder / "scores" / "second.run").open("w") as second,
    ):
        qrels.write("query-id\tcorpus-id\tscore\n")
        for query in names:
            found = rng.choice(DOCUMENTS, CANDIDATES, replace=False).tolist()
            scores = rng.random(CANDIDATES).round(6).tolist()
            qrels.writelines(f"{query}\td{document}\t1\n" for document in found[:JUDGED])
            first.writelines(
                f"{query} Q0 d{document} {i + 1} {CANDIDATES - i} first\n" for i, document in enumerate(found)
            )
            second.writelines(
                f"{query} Q0 d{document} 1 {score} second\n" for document, score in zip(found, scores, strict=True)
            )


def one_run(data: Path, policy: str) -> dict[str, float]:
    """CPU seconds of reading and of the run in this process, without imports, and its peak memory."""
    sys.path.insert(0, str(ROOT))
    from experiments.cli.experiment import run_experiment
    from experiments.config.compose import compose
    from experiments.replay.build import build_session

    collection = [
        "dataset=beir",
        f"dataset.path={data}",
        "retriever=runs",
        f"retriever.paths={data / 'runs/first.run'}",
    ]
    scores = [f"reranker.scores={data / 'scores/second.run'}", "reranker.scale=identity"]
    quiet = ["tracking=none", "verbosity=0", "budget=unlimited"]
    config = compose([*collection, *scores, *quiet, *POLICIES[policy]])
    with tempfile.TemporaryDirectory() as folder:
        started = time.process_time()
        build_session(config)  # files are read once a process
        read = time.process_time()
        run_experiment(config, Path(folder) / "run", [])
        ended = time.process_time()
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"read_s": read - started, "cpu_s": ended - read, "peak_mb": peak_mb}


def measured(data: Path, policy: str, repeats: int) -> dict[str, float]:
    """Medians of several processes."""
    command = [sys.executable, __file__, "--one", str(data), policy]
    runs = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as cache:  # where columns that were read before would be found
            variables = {**os.environ, "RAGTUNE_CACHE": cache}
            said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=variables).stdout
        runs.append(json.loads(said.splitlines()[-1]))
    return {name: round(statistics.median(run[name] for run in runs), 3) for name in runs[0]}


def main() -> int:
    """Measure every policy at every number of queries, and print what one more query costs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, nargs="+", default=[1000, 4000])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    parser.add_argument("--one", nargs=2, metavar=("DATA", "POLICY"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(one_run(Path(arguments.one[0]), arguments.one[1])))
        return 0
    growth: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for queries in sorted(arguments.queries):
            generate(data := Path(folder) / str(queries), queries)
            for policy in POLICIES:
                growth.append({"policy": policy, "queries": queries, **measured(data, policy, arguments.repeats)})
                print(growth[-1], flush=True)
    rates, readings = {}, {}
    for policy in POLICIES:
        first, *_, last = (row for row in growth if row["policy"] == policy)
        queries = last["queries"] - first["queries"]
        rates[policy] = round(queries / (last["cpu_s"] - first["cpu_s"]))
        readings[policy] = round(queries / (last["read_s"] - first["read_s"]))
        print(f"{policy}: {rates[policy]} queries a CPU second, read at {readings[policy]} a second before")
    if arguments.json:
        figures = {"queries a CPU second": rates, "queries read a CPU second": readings, "growth": growth}
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
