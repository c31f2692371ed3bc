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
from ragtune.rerankers.calibration import Calibration

_OF_TWO = ("nfcorpus", "cranfield", "medline", "cacm")
_OF_ONE = ("dl21", "medquad-liveqa", "cosqa", "stackfaq")
_BRIGHT = ("bright-biology", "bright-economics", "bright-stackoverflow", "bright-pony")
TABLES = (
    *((name, *table) for name in _OF_TWO for table in (("ce", "identity"), ("minilm", "cosine"))),
    ("dl19", "monot5-base", "log_prob"),
    ("dl21", "ielab-robertav1", "logit"),
    *((name, "minilm", "cosine") for name in _OF_ONE),
    ("tcrag-zh", "e5", "cosine"),
    *((name, *table) for name in _BRIGHT for table in (("qwen-8b", "identity"), ("monot5-3b", "log_prob"))),
)
"""Collections, score tables and their scales."""

HEAD = "| collection, reranker | queries | documents | relevant | curve | ECE | calibrated | Brier | calibrated |"


def calibrated(folder: Path, scores: str, scale: str, file: Path) -> Calibration:
    words = ["calibrate", "dataset=beir", f"dataset.path={folder}", "retriever=runs", f"reranker.scale={scale}"]
    words += [f"retriever.paths={folder}/runs/bm25.run", f"reranker.scores={folder}/scores/{scores}.run"]
    with contextlib.redirect_stdout(io.StringIO()):
        assert main([*words, "--out", str(file)]) == 0
    return Calibration.load(file)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the collections")
    data = parser.parse_args().data
    print(f"{HEAD}\n|---|---:|---:|---:|---|---:|---:|---:|---:|")
    with TemporaryDirectory() as kept:
        for name, scores, scale in TABLES:
            found = calibrated(data / name, scores, scale, Path(kept, "made.json"))
            share = found.relevant / found.documents
            cells = [f"{name}, `{scores}`", str(found.queries), f"{found.documents:,}", f"{share:.1%}", found.method]
            errors = [f"{x:.3f}" for x in (found.before.ece, found.after.ece, found.before.brier, found.after.brier)]
            print("|", " | ".join([*cells, *errors]), "|", flush=True)
