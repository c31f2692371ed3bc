"""Whole commands, from the interpreter's start to its end: CPU seconds, medians, in turns.

    python benchmarks/bench_startup.py [--repeats 5] [--data ../shared/data/dl19] [--json FILE]

Targets: the controller within 0.15 s of NumPy and Pydantic alone, ``run.py --help`` under 1 s, ``run.py`` on the
demo collection 2.5 s without and 4.5 s with MLflow, and a sweep over 20 depths in half of what a PyTerrier script takes
for their nDCG@10. Each sweep writes 20 folders with runs, traces and curves with intervals, and tests every depth; the
script writes a table. Bytecode is kept and the caches are warm, for both alike.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from machine import report

ROOT = Path(__file__).resolve().parents[1]
RUN = [sys.executable, str(ROOT / "run.py")]
DEPTHS = [str(depth) for depth in range(5, 101, 5)]
BASE, LIBRARY = "import of numpy and pydantic", "import of the controller"
SWEEP, SCRIPT = "sweep of 20 depths", "PyTerrier script of the same"


def main() -> int:
    """Run every command in turns; print medians and ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data" / "dl19")
    parser.add_argument("--json", type=Path, help="write the figures here as well")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = measured(arguments.data, Path(folder), arguments.repeats)
    sys.stdout.write("".join(f"{name}: {value}\n" for name, value in figures.items()))
    report(figures, arguments.json)
    return 0


def measured(data: Path, folder: Path, repeats: int) -> dict[str, Any]:
    """Median CPU seconds of each command, and what they amount to."""
    commands = {**startup(folder), **(grids(data, folder) if data.is_dir() else {})}
    store = f"sqlite:///{folder / 'mlflow.db'}"
    variables = {**os.environ, "RAGTUNE_CACHE": str(folder / "cache"), "MLFLOW_TRACKING_URI": store}
    variables.pop("PYTHONDONTWRITEBYTECODE", None)  # a user's interpreter compiles a module once
    for command in commands.values():  # makes the caches and the store
        cpu_seconds(command, variables)
    rounds = [{name: cpu_seconds(command, variables) for name, command in commands.items()} for _ in range(repeats)]
    figures: dict[str, Any] = {name: round(statistics.median(r[name] for r in rounds), 3) for name in commands}
    figures["the controller over its base"] = round(figures[LIBRARY] - figures[BASE], 3)
    if SWEEP in commands:
        figures["script / sweep"] = round(statistics.median(r[SCRIPT] / r[SWEEP] for r in rounds), 2)
        figures["largest difference in nDCG@10"] = largest_difference(folder)
    return figures


def startup(folder: Path) -> dict[str, Sequence[str]]:
    """Imports, help, and one run of the demo collection."""
    run = [*RUN, "estimator=uncertainty", "budget=tight", f"hydra.run.dir={folder / 'run'}"]
    return {
        BASE: [sys.executable, "-c", "import numpy, pydantic"],
        LIBRARY: [sys.executable, "-c", "from ragtune import RAGtuneController"],
        "run.py --help": [*RUN, "--help"],
        "run.py, without MLflow": [*run, "tracking=none"],
        "run.py, with MLflow": run,
    }


def grids(data: Path, folder: Path) -> dict[str, Sequence[str]]:
    """The same depths by a sweep and by PyTerrier."""
    collection = ["dataset=beir", f"dataset.path={data}", "retriever=runs", f"retriever.paths={data}/runs/bm25.run"]
    scores = [f"reranker.scores={data}/scores/monot5-base.run", "reranker.scale=log_prob"]
    policy = ["experiment=fixed_depth", f"budget={','.join(DEPTHS)}", "measures=[nDCG@10]"]
    sweep = [*RUN, "-m", *policy, *collection, *scores, "tracking=none", f"hydra.sweep.dir={folder / 'sweep'}"]
    script = [sys.executable, str(ROOT / "benchmarks" / "pyterrier_depths.py"), str(data), str(folder / "peer.csv")]
    return {SWEEP: sweep, SCRIPT: [*script, *DEPTHS]}


def cpu_seconds(command: Sequence[str], variables: Mapping[str, str]) -> float:
    """User and system time of a process and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, env=variables, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def largest_difference(folder: Path) -> float:
    """How far the two are apart at any depth."""
    ours = pd.read_csv(folder / "sweep" / "sweep.csv")["nDCG@10"]
    theirs = pd.read_csv(folder / "peer.csv")["ndcg_cut_10"]
    return float((ours - theirs).abs().max())


if __name__ == "__main__":
    sys.exit(main())
