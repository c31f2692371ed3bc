"""Test finished runs of one collection against the first run.

A RUN is a folder of ``ragtune run``, or an MLflow run id. The files of an id are downloaded from the store that
conf/tracking/mlflow.yaml or MLFLOW_TRACKING_URI names. Writes compare.md, compare.csv and .parquet, policies.csv,
per_query.parquet and report.html.

The baseline of the recommendation is the most expensive run of the first run's policy, as in a study.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("runs", nargs="+", metavar="RUN", help="folder or MLflow run id; the first is the reference")
    parser.add_argument("--out", type=Path, help="output folder; default: results/compare/FIRST-and-N-more")
    parser.add_argument("--no-report", action="store_true", help="no report.html")


def run(arguments: argparse.Namespace) -> int:
    """Compare runs and write the files."""
    from experiments.compare.runs import find_runs, reservations, study_of_runs
    from experiments.publish.folders import require_writable
    from experiments.report.report import write_study
    from experiments.report.study import file_stem

    require_writable(arguments.out or Path("results", "compare"))
    with tempfile.TemporaryDirectory() as downloads:
        runs = find_runs(arguments.runs, Path(downloads))
        study = study_of_runs(runs, arguments.command)
    sys.stderr.writelines(f"warning: {reservation}\n" for reservation in reservations(runs))
    name = file_stem(f"{runs[0].name}-and-{len(runs) - 1}-more")
    folder = arguments.out or Path("results", "compare", name)
    write_study(study, folder, report=not arguments.no_report)
    sys.stdout.write((folder / "compare.md").read_text(encoding="utf-8"))
    sys.stdout.write(f"{folder}\n")
    return 0
