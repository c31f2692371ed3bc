"""Calibration error of recorded scores on held-out queries, before and after ragtune calibrate.

python benchmarks/bench_calibration.py --data ../shared/data
"""

from __future__ import annotations

import argparse
import contextlib
import io
from pathlib import Path
from tempfile import TemporaryDirectory

from ragtune.cli.main import main
from ragtune.facade.calibration import Calibration

TABLES = {
    "nfcorpus": ("ce", "minilm"),
    "cranfield": ("ce", "minilm"),
    "medline": ("ce", "minilm"),
    "cacm": ("ce", "minilm"),
    "dl19": ("monot5-base",),
    "dl21": ("ielab-robertav1", "minilm"),
    "medquad-liveqa": ("minilm",),
    "cosqa": ("minilm",),
    "stackfaq": ("minilm",),
    "tcrag-zh": ("e5",),
    "bright-biology": ("qwen-8b", "monot5-3b"),
    "bright-economics": ("qwen-8b", "monot5-3b"),
    "bright-stackoverflow": ("qwen-8b", "monot5-3b"),
    "bright-pony": ("qwen-8b", "monot5-3b"),
}
"""Score tables of the open collections; listwise orders have no scores."""


def calibrated(folder: Path, scores: str, file: Path) -> Calibration:
    words = ["calibrate", "dataset=beir", f"dataset.path={folder}", "retriever=runs"]
    words += [f"retriever.paths={folder}/runs/bm25.run", f"reranker.scores={folder}/scores/{scores}.run"]
    with contextlib.redirect_stdout(io.StringIO()):
        assert main([*words, "--out", str(file)]) == 0
    return Calibration.load(file)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the collections")
    data = parser.parse_args().data
    print(
        "| collection, reranker | queries | documents | relevant | curve | ECE before | after | Brier before | after |"
    )
    print("|---|---:|---:|---:|---|---:|---:|---:|---:|")
    with TemporaryDirectory() as kept:
        for name, tables in TABLES.items():
            for scores in tables:
                found = calibrated(data / name, scores, Path(kept, "made.json"))
                before, after = found.before, found.after
                assert before is not None
                assert after is not None
                cells = [
                    f"{name}, `{scores}`",
                    found.queries,
                    f"{found.pairs:,}",
                    f"{found.relevant / found.pairs:.1%}",
                ]
                errors = [f"{x:.3f}" for x in (before.ece, after.ece, before.brier, after.brier)]
                print("|", " | ".join(map(str, [*cells, found.method, *errors])), "|", flush=True)
