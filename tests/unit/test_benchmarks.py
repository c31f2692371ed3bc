"""What is promised of speed is told of every run of the benchmarks."""

from __future__ import annotations

import runpy
from pathlib import Path

TARGETS = Path(__file__).parents[2] / "benchmarks" / "targets.py"


def test_what_could_not_be_measured_for_want_of_a_collection_is_said_beside_what_was():
    table = runpy.run_path(str(TARGETS))["table"]
    measured = {"batches": [{"pool": 10_000, "median_ms": 7.0, "growth": 1.0}]}
    rows = {line.split(" | ")[0]: line for line in table({"bench_estimators": measured})}
    assert rows["| uncertainty, 10 of a pool of 10,000, ms"].endswith("| at most 5 | 7 | missed |")
    assert rows["| the same, last batches over first ones"].endswith("| at most 1.1 | 1 |  |")
    assert rows["| GAR with a graph, times pyterrier-adaptive"].endswith("| at least 2 | | not measured |")
