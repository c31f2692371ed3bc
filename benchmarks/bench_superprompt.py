"""The eight stages on the demo collection, language model off: milliseconds from A0 to Prompt_Builder.

    python benchmarks/bench_superprompt.py [--model DIR] [--repeats 15]

``DIR`` is a cross-encoder's folder; by default the first one under ../shared/models, and without any that part is left
out. Models are loaded and documents indexed beforehand, scores come from no cache, and every query of the collection
takes its turn. Targets: under 300 ms without the cross-encoder, under 2 s with it (50 candidates).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from itertools import cycle, islice
from pathlib import Path

from ragtune.superprompt import Pipeline, PipelineConfig, SuperPrompt
from ragtune.superprompt.memory.documents import DocumentMemory
from ragtune.superprompt.memory.inputs import read_folder
from ragtune.superprompt.pipeline import build_pipeline
from ragtune.superprompt.stages.reranker import BaseRerankStage, BudgetedRerankStage, TopRerankStage

ROOT = Path(__file__).resolve().parents[1]
DEMO = ROOT / "datasets" / "demo"


def main() -> int:
    """Print median, slowest and each stage's share, with and without the cross-encoder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=find_model())
    parser.add_argument("--repeats", type=int, default=15)
    arguments = parser.parse_args()
    prompts = [json.loads(line)["text"] for line in (DEMO / "queries.jsonl").read_text(encoding="utf-8").splitlines()]
    report("no reranker", None, prompts, arguments.repeats)
    if arguments.model is None:
        sys.stdout.write("cross-encoder: left out, no folder under ../shared/models (give --model DIR)\n")
        return 0
    model = str(arguments.model)
    top = TopRerankStage.cross_encoder(model, cache_dir=None)
    for kind, stage in (("cross_encoder", top), ("budgeted", BudgetedRerankStage(top.reranker, 20))):
        report(f"{kind} {arguments.model.name}", stage, prompts, max(3, arguments.repeats // 3))
    return 0


def find_model() -> Path | None:
    """The first model folder beside the checkout."""
    folders = sorted((ROOT.parent / "shared" / "models").glob("*/config.json"))
    return folders[0].parent if folders else None


def report(name: str, stage: BaseRerankStage | None, prompts: list[str], repeats: int) -> None:
    """Time ``repeats`` prompts after one that loads everything."""
    memory = DocumentMemory.from_texts(read_folder(DEMO), PipelineConfig.load().chunking)
    pipeline = build_pipeline(memory=memory, rerank_stage=stage)
    pipeline.run_all(SuperPrompt.raw(prompts[-1]))
    runs = [timed(pipeline, prompt) for prompt in islice(cycle(prompts), repeats)]
    totals, cpu = [total for total, _, _ in runs], statistics.median(busy for _, busy, _ in runs)
    sys.stdout.write(f"{name}: median {statistics.median(totals):.1f} ms ({cpu:.1f} ms of CPU over all threads), ")
    sys.stdout.write(f"slowest {max(totals):.1f} ms of {repeats}\n")
    for stage in runs[0][2]:
        sys.stdout.write(f"  {stage}: {statistics.median(shares[stage] for _, _, shares in runs):.1f} ms\n")


def timed(pipeline: Pipeline, prompt: str) -> tuple[float, float, dict[str, float]]:
    """Milliseconds of one run, by the clock and of CPU, and of its stages."""
    started, busy = time.perf_counter(), time.process_time()
    done = pipeline.run_all(SuperPrompt.raw(prompt))
    elapsed, busy = (time.perf_counter() - started) * 1000.0, (time.process_time() - busy) * 1000.0
    return elapsed, busy, {entry["stage"]: entry["ms"] for entry in done.extras["costs"]}


if __name__ == "__main__":
    sys.exit(main())
