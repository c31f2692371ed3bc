"""A live cross-encoder on one core: ONNX Runtime against PyTorch, and queries in lockstep against one at a time.

    python benchmarks/bench_models.py [--data ../shared/data/dl19] [--model DIR] [--queries 8] [--repeats 5] [--json F]

Every query's first candidates are reranked in batches of 5, by both backends, alone and all queries in lockstep: the
same pairs four times. CPU seconds of this process, in turns, medians; loading is not among them. Rankings must be the
same, scores within 1e-4.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ragtune import BudgetedReranker
from ragtune.core.pool.ordering import Ordering
from ragtune.estimators.baseline import BaselineEstimator
from ragtune.facade.policies import Policy
from ragtune.schedulers.greedy import GreedyScheduler

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
BACKENDS = ("torch", "onnx")
BATCH, DOCS = 5, 10

IN_BATCHES = Policy(BaselineEstimator(), GreedyScheduler(batch_size=BATCH), Ordering.RERANKED_FIRST)
"""The first stage's order, as ``fixed_depth`` has it, which sends it in one batch."""

Job = tuple[str, list[str]]
Scores = list[dict[int, float]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=SHARED / "data" / "dl19")
    parser.add_argument("--model", default=str(SHARED / "models" / "ce-minilm-nfcorpus-scifact"))
    parser.add_argument("--queries", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the figures here as well")
    arguments = parser.parse_args()
    if not arguments.data.is_dir():
        sys.stdout.write(f"{arguments.data} is absent: nothing is measured\n")
        return 0
    figures = compared(arguments.model, list(jobs(arguments.data, arguments.queries)), arguments.repeats)
    sys.stdout.write(json.dumps(figures, indent=2) + "\n")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0


def jobs(data: Path, queries: int) -> Iterator[Job]:
    """Queries, evenly over the collection, each with the texts of its first candidates."""
    sys.path.insert(0, str(ROOT))  # the harness is not installed
    from experiments.datasets.beir import BeirDataset
    from ragtune.data.runfile import read_run

    dataset = BeirDataset(str(data)).load()
    run = read_run(data / "runs" / "bm25.run")
    for query_id in dataset.judged[:: max(1, len(dataset.judged) // queries)][:queries]:
        yield dataset.queries[query_id], [dataset.corpus[entry.doc_id].content for entry in run[query_id][:DOCS]]


def compared(model: str, work: list[Job], repeats: int) -> dict[str, Any]:
    import torch

    torch.set_num_threads(1)
    ways: dict[str, Callable[[], Scores]] = {}
    for backend in BACKENDS:
        reranker = BudgetedReranker(model, docs=DOCS, policy=IN_BATCHES, backend=backend, device="cpu")
        ways[f"{backend} alone"] = lambda reranker=reranker: [scores(reranker.rank(*job)) for job in work]  # type: ignore[misc]
        ways[f"{backend} lockstep"] = lambda reranker=reranker: [scores(each) for each in reranker.rank_many(work)]  # type: ignore[misc]
    found = {name: way() for name, way in ways.items()}  # a pass to warm up
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            started = time.process_time()
            way()
            times[name].append(time.process_time() - started)
    seconds = {name: statistics.median(each) for name, each in times.items()}
    return {
        "pairs": sum(map(len, found["torch alone"])),
        "cpu_s": {name: round(each, 3) for name, each in seconds.items()},
        "onnx_against_torch": {
            how: round(seconds[f"torch {how}"] / seconds[f"onnx {how}"], 2) for how in ("alone", "lockstep")
        },
        "lockstep_against_alone": {
            backend: round(seconds[f"{backend} alone"] / seconds[f"{backend} lockstep"], 2) for backend in BACKENDS
        },
        "largest_difference": max(furthest(found["torch alone"], other) for other in found.values()),
    }


def scores(ranking: Any) -> dict[int, float]:
    """Scores by document, best first."""
    return {document.index: document.reranker_score for document in ranking}


def furthest(ours: Scores, theirs: Scores) -> float:
    """The largest difference of two scores of one pair; the order must be the same."""
    assert list(map(list, ours)) == list(map(list, theirs))
    difference = max(abs(mine[i] - other[i]) for mine, other in zip(ours, theirs, strict=True) for i in mine)
    assert difference < 1e-4, difference
    return difference


if __name__ == "__main__":
    sys.exit(main())
