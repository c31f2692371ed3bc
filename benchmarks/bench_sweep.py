"""80 configurations x every query, replayed, measures and MLflow included: how long does a sweep take?

    python benchmarks/bench_sweep.py [--data DIR] [--jobs 2]

``DIR`` is a BEIR folder with runs/bm25.run and scores/ce.run (323 queries x 100 candidates of nfcorpus is the target's
collection: 60 s on 2 cores). Without it the shipped demo collection is swept, which only shows that the machinery
works.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from machine import report

ROOT = Path(__file__).resolve().parents[1]
GRID = [
    "estimator=baseline,similarity,uncertainty,score_oracle,qrels_oracle",
    "scheduler=greedy,settled",
    "scheduler.batch_size=5,10",
    "budget.max_reranker_docs=10,20,30,50",
]
"""5 x 2 x 2 x 4 = 80 configurations."""


def main() -> int:
    """Run the sweep once and print seconds, seconds a configuration, and queries a second."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data" / "nfcorpus")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write the figures here as well")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = sweep(arguments.data, arguments.jobs, Path(folder))
    sys.stdout.write("".join(f"{name}: {value}\n" for name, value in figures.items()))
    report(figures, arguments.json)
    return 0


def sweep(data: Path, jobs: int, folder: Path) -> dict[str, object]:
    """One sweep in ``folder``; its figures."""
    collection = ["dataset=demo"]
    if data.is_dir():
        collection = [
            "dataset=beir",
            f"dataset.path={data}",
            "retriever=runs",
            f"retriever.paths={data / 'runs' / 'bm25.run'}",
            f"reranker.scores={data / 'scores' / 'ce.run'}",
        ]
    command = [sys.executable, str(ROOT / "run.py"), "-m", *GRID, *collection]
    command += ["hydra/launcher=joblib", f"hydra.launcher.n_jobs={jobs}", f"hydra.sweep.dir={folder / 'sweep'}"]
    environment = {**os.environ, "MLFLOW_TRACKING_URI": f"sqlite:///{folder / 'mlflow.db'}"}
    started = time.perf_counter()
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - started
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    summaries = [json.loads(p.read_text()) for p in (folder / "sweep").glob("*/summary.json")]
    tracked = sum(summary["mlflow_run_id"] is not None for summary in summaries)
    return {
        "collection": summaries[0]["dataset"],
        "configurations": len(summaries),
        "tracked in MLflow": tracked,
        "queries replayed": sum(summary["queries"] for summary in summaries),
        "jobs": jobs,
        "seconds": round(seconds, 1),
        "CPU seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "seconds a configuration": round(seconds / len(summaries), 3),
    }


if __name__ == "__main__":
    sys.exit(main())
