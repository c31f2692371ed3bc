"""Many queries through the harness: what one more query costs, and whether that stays so as they grow.

    python benchmarks/bench_queries.py [--queries 1000 4000] [--repeats 3] [--many 10000 100000] [--documents 2000]
        [--json FILE]

Runs are whole (`run_experiment`: replayed, measured, compared with its baselines, written), each in a process of its
own over generated queries with 100 candidates. What a query costs is the slope between the smallest and the largest
number of queries, in CPU seconds; many queries are run once, which tells whether time grows in proportion, and memory
does not. Reading the collection, its run and its score table comes before, and is a figure of its own; so are the
baselines: fixed depth and reranking everything, replayed and compared with.
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
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from machine import report

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS, CANDIDATES, JUDGED = 2000, 100, 10
POLICIES = {
    "fixed depth": ["experiment=fixed_depth"],
    "greedy 10 x 10": ["estimator=baseline", "scheduler.batch_size=10"],
    "score oracle 10 x 10": ["experiment=score_oracle", "scheduler.batch_size=10"],
}

RATES = {
    "queries a CPU second": ("cpu_s",),
    "queries a CPU second, without baselines": ("cpu_s", "baselines_s"),
    "queries read a CPU second": ("read_s",),
}
"""What is told of each policy, and the parts of a run that it is told of."""


def generate(folder: Path, queries: int, documents: int = DOCUMENTS) -> None:
    """A BEIR folder with a run and a score table of as many queries, the same ones every time."""
    rng = np.random.default_rng(0)
    for name in ("qrels", "runs", "scores"):
        (folder / name).mkdir(parents=True)
    lines = (
        json.dumps({"_id": f"d{i}", "title": "", "text": f"passage {i} of a collection"}) for i in range(documents)
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
            found = rng.choice(documents, CANDIDATES, replace=False).tolist()
            scores = rng.random(CANDIDATES).round(6).tolist()
            qrels.writelines(f"{query}\td{document}\t1\n" for document in found[:JUDGED])
            first.writelines(
                f"{query} Q0 d{document} {i + 1} {CANDIDATES - i} first\n" for i, document in enumerate(found)
            )
            second.writelines(
                f"{query} Q0 d{document} 1 {score} second\n" for document, score in zip(found, scores, strict=True)
            )


def options(data: Path) -> list[str]:
    """What a folder that was generated is replayed with."""
    collection = ["dataset=beir", f"dataset.path={data}", "retriever=runs"]
    first, second = f"retriever.paths={data / 'runs/first.run'}", f"reranker.scores={data / 'scores/second.run'}"
    return [*collection, first, second, "reranker.scale=identity", "budget=unlimited"]


def one_run(data: Path, policy: str) -> dict[str, float]:
    """CPU seconds of reading and of the run in this process, without imports, and its peak memory: what it has held,
    and that with the pages of mapped files, which the system takes back where it needs them.
    """
    sys.path.insert(0, str(ROOT))
    from experiments.cli import experiment
    from experiments.config.compose import compose
    from experiments.evaluate import baselines as evaluation
    from experiments.evaluate.significance import Bootstrap
    from experiments.replay.build import build_session
    from experiments.replay.records import FixedDepth

    config = compose([*options(data), "tracking=none", "verbosity=0", *POLICIES[policy]])
    baselines = [
        timed(owner, name)
        for owner, name in (
            (FixedDepth, "over"),
            (evaluation, "compare_queries"),
            (experiment, "compare"),
            (evaluation.Evaluation, "depth_line"),
        )
    ]
    drawn = timed(Bootstrap, "interval")  # within the comparison, though the run's own intervals take nearly all of it
    with tempfile.TemporaryDirectory() as folder, watched() as held:
        started = time.process_time()
        build_session(config)  # files are read once a process
        read = time.process_time()
        experiment.run_experiment(config, Path(folder) / "run", [])
        ended = time.process_time()
    return {
        "read_s": read - started,
        "cpu_s": ended - read,
        "baselines_s": sum(map(sum, baselines)) - sum(drawn),
        "held_mb": max(held),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


@contextmanager
def watched() -> Iterator[list[float]]:
    """Note five times a second, so that it is little work, how many megabytes are held that are no pages of files."""
    held, ended = list[float](), threading.Event()

    def watch() -> None:
        while not ended.wait(0.2):
            lines = Path("/proc/self/status").read_text().splitlines()
            held.extend(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon:"))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield held
    finally:
        ended.set()
        watcher.join()


def timed(owner: Any, name: str) -> list[float]:
    """Have each call of a function add the CPU seconds that it takes to the list."""
    function, seconds = getattr(owner, name), list[float]()

    def measured(*given: Any, **named: Any) -> Any:
        started = time.process_time()
        try:
            return function(*given, **named)
        finally:
            seconds.append(time.process_time() - started)

    setattr(owner, name, measured)
    return seconds


def measured(data: Path, policy: str, repeats: int) -> dict[str, float]:
    """Medians of several processes."""
    command = [sys.executable, __file__, "--one", str(data), policy]
    runs = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as cache:  # where columns that were read before would be found
            # Threads of linear algebra that wait for one another count as work.
            variables = {**os.environ, "RAGTUNE_CACHE": cache, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
            said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=variables).stdout
        runs.append(json.loads(said.splitlines()[-1]))
    return {name: round(statistics.median(run[name] for run in runs), 3) for name in runs[0]}


def rate(growth: Sequence[Mapping[str, Any]], policy: str, part: str, *less: str) -> int:
    """Queries a CPU second of a part of the run, ``less`` other parts, between the smallest and the largest run."""
    first, *_, last = (
        {**row, "s": row[part] - sum(row[name] for name in less)} for row in growth if row["policy"] == policy
    )
    return round((last["queries"] - first["queries"]) / (last["s"] - first["s"]))


def main() -> int:
    """Measure every policy at every number of queries, and print what one more query costs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, nargs="+", default=[1000, 4000])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--many", type=int, nargs="*", default=[10_000, 100_000], help="run once, for their growth")
    parser.add_argument("--documents", type=int, default=DOCUMENTS, help="of many, most candidates are new")
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    parser.add_argument("--one", nargs=2, metavar=("DATA", "POLICY"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(one_run(Path(arguments.one[0]), arguments.one[1])))
        return 0
    growth: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for queries in sorted({*arguments.queries, *arguments.many}):
            repeats = arguments.repeats if queries in arguments.queries else 1
            generate(data := Path(folder) / str(queries), queries, arguments.documents)
            for policy in POLICIES:
                growth.append({"policy": policy, "queries": queries, **measured(data, policy, repeats)})
                print(growth[-1], flush=True)
    repeated = [row for row in growth if row["queries"] in arguments.queries]
    figures = {what: {policy: rate(repeated, policy, *parts) for policy in POLICIES} for what, parts in RATES.items()}
    for what, rates in figures.items():
        print(f"{what}: {', '.join(f'{policy} {number}' for policy, number in rates.items())}")
    report({**figures, "growth": growth}, arguments.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
