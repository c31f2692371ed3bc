"""When lexical, vector or hybrid search wins: BEIR collections and real documentation (needs the extra ``models``).

    python benchmarks/bench_hybrid.py [FOLDER ...] --model FOLDER [--every 1]

Each FOLDER is a collection with ``qrels/test.tsv``, whose documents are a chunk each. Without one, the language
reference that Python ships (79 files) is searched for the questions of ``benchmarks/questions/python.jsonl``.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from functools import partial
from pathlib import Path
from pydoc_data.topics import topics

from ragtune.canonical.chunking import chunk
from ragtune.canonical.fitting import Questions, fit, read_questions
from ragtune.canonical.ingestion import ingest
from ragtune.canonical.policies import ChunkPolicy
from ragtune.canonical.sources import DocumentFiles
from ragtune.canonical.store.memory import MemoryDatabase
from ragtune.embedders.sentence_transformer import SentenceTransformerEmbedder

OWN = Path(__file__).with_name("questions") / "python.jsonl"
PARAGRAPHS, WHOLE = ChunkPolicy(method="paragraphs"), ChunkPolicy(max_tokens=1_000_000)


def judged(folder: Path, every: int) -> Questions:
    """The test questions of a BEIR collection."""
    grades: dict[str, dict[str, float]] = {}
    for line in (folder / "qrels" / "test.tsv").read_text().splitlines()[1:]:
        query_id, doc_id, grade = line.split("\t")
        if float(grade) > 0:
            grades.setdefault(query_id, {})[doc_id] = float(grade)
    texts = {row["_id"]: row["text"] for row in map(json.loads, (folder / "queries.jsonl").read_text().splitlines())}
    return [(texts[query_id], grades[query_id]) for query_id in sorted(grades)][::every]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--model", required=True, help="folder or name of a sentence-transformers model")
    parser.add_argument("--every", type=int, default=1, help="take every n-th question")
    arguments = parser.parse_args()
    embedder = SentenceTransformerEmbedder(arguments.model)
    with tempfile.TemporaryDirectory() as made:
        python = Path(made) / "python"
        python.mkdir()
        for name, text in topics.items():
            (python / f"{name}.rst").write_text(text, encoding="utf-8")
        for folder in arguments.folders or [python]:
            store = MemoryDatabase().open("docs", embedder, create=True)
            policy = PARAGRAPHS if folder == python else WHOLE
            counts = ingest(DocumentFiles([folder]), store, partial(chunk, policy=policy))
            questions = read_questions(OWN) if folder == python else judged(folder, arguments.every)
            sys.stdout.write(f"\n{folder.name}: {counts.chunks} chunks, {len(questions)} questions\n")
            for name, row in fit(store, questions)[1].items():
                sys.stdout.write(f"{name:<24}{row.top1:>8.3f}{row.top3:>8.3f}{row.ndcg:>9.3f}\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
