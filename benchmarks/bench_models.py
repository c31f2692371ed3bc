"""A live cross-encoder: on one core, ONNX Runtime against PyTorch, and queries in lockstep against one at a time; the
latter on a GPU too, where there is one.

    python benchmarks/bench_models.py [--data ../shared/data/dl19] [--model DIR] [--queries 8] [--repeats 5]
        [--device cuda] [--json F]

Every query's first candidates are reranked in batches of 5, by both backends, alone and all queries in lockstep: the
same pairs four times. CPU seconds of this process, in turns, medians; loading is not among them. Rankings must be the
same, scores within 1e-4. On a GPU: seconds of the clock, as the process waits meanwhile, eight times the queries, and
the name of the device in the figures; how far the scores of both ways differ is told, and not held to anything.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from machine import report

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
Way = Callable[[], Scores]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=SHARED / "data" / "dl19")
    parser.add_argument("--model", default=str(SHARED / "models" / "ce-minilm-nfcorpus-scifact"))
    parser.add_argument("--queries", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--device", help="where lockstep is measured by the clock as well; cuda where there is one")
    parser.add_argument("--json", type=Path, help="write the figures here as well")
    arguments = parser.parse_args()
    if not arguments.data.is_dir():
        sys.stdout.write(f"{arguments.data} is absent: nothing is measured\n")
        return 0
    figures = compared(arguments.model, list(jobs(arguments.data, arguments.queries)), arguments.repeats)
    if device := arguments.device or gpu():
        work = list(jobs(arguments.data, 8 * arguments.queries))
        figures["lockstep_by_the_clock"] = by_the_clock(arguments.model, device, work, arguments.repeats)
    sys.stdout.write(json.dumps(figures, indent=2) + "\n")
    report(figures, arguments.json)
    return 0


def jobs(data: Path, queries: int) -> Iterator[Job]:
    """Queries, evenly over the collection, each with the texts of its first candidates."""
    sys.path.insert(0, str(ROOT))  # the harness is not installed
    from experiments.datasets.beir import BeirDataset
    from ragtune.data.runs.runfile import read_run

    dataset = BeirDataset(str(data)).load()
    run = read_run(data / "runs" / "bm25.run")
    for query_id in dataset.judged[:: max(1, len(dataset.judged) // queries)][:queries]:
        yield dataset.queries[query_id], [dataset.corpus[entry.doc_id].content for entry in run[query_id][:DOCS]]


def gpu() -> str | None:
    """The GPU of this machine; None where there is none."""
    import torch

    return "cuda" if torch.cuda.is_available() else None


def ways_of(model: str, work: list[Job], backend: str, device: str) -> dict[str, Way]:
    """What is measured of a backend: all jobs, alone and in lockstep."""
    reranker = BudgetedReranker(model, docs=DOCS, policy=IN_BATCHES, backend=backend, device=device)
    return {
        f"{backend} alone": lambda: [scores(reranker.rank(*job)) for job in work],
        f"{backend} lockstep": lambda: [scores(each) for each in reranker.rank_many(work)],
    }


def medians(ways: Mapping[str, Way], repeats: int, clock: Callable[[], float]) -> dict[str, float]:
    """Seconds of each way, measured in turns."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            started = clock()
            way()
            times[name].append(clock() - started)
    return {name: statistics.median(each) for name, each in times.items()}


def by_the_clock(model: str, device: str, work: list[Job], repeats: int) -> dict[str, Any]:
    """Lockstep against one query at a time where the process waits for a device."""
    import torch

    ways = ways_of(model, work, "torch", device)
    found = {name: way() for name, way in ways.items()}  # a pass to warm up
    seconds = medians(ways, repeats, time.perf_counter)
    return {
        "device": torch.cuda.get_device_name(device) if device.startswith("cuda") else device,
        "pairs": sum(map(len, found["torch alone"])),
        "seconds": {name: round(each, 3) for name, each in seconds.items()},
        "lockstep_against_alone": round(seconds["torch alone"] / seconds["torch lockstep"], 2),
        "largest_difference": difference(found["torch alone"], found["torch lockstep"]),
    }


def compared(model: str, work: list[Job], repeats: int) -> dict[str, Any]:
    """Both backends on one core."""
    import torch

    torch.set_num_threads(1)
    ways = {name: way for backend in BACKENDS for name, way in ways_of(model, work, backend, "cpu").items()}
    found = {name: way() for name, way in ways.items()}  # a pass to warm up
    seconds = medians(ways, repeats, time.process_time)
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
    found = difference(ours, theirs)
    assert found < 1e-4, found
    return found


def difference(ours: Scores, theirs: Scores) -> float:
    """The largest difference of two scores of one pair."""
    return max(abs(mine[i] - other[i]) for mine, other in zip(ours, theirs, strict=True) for i in mine)


if __name__ == "__main__":
    sys.exit(main())
