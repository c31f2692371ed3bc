"""python scripts/ingest.py dataset=demo store=postgres: a dataset into a collection, for retriever=postgres.

Options are given as NAME=VALUE, as to run.py; conf/ingest.yaml lists them:

    dataset=demo|beir|irds          dataset.path=DIR ...
    store=postgres|memory           store.dsn=DSN (or RAGTUNE_DSN), else store.folder=DIR of the embedded server
    embedder=hashing|sentence_transformer|openai_compatible          embedder.model=... ...
    collection=NAME                 by default made from the dataset's name and content
    chunk.method=tokens|sentences|paragraphs|markdown  chunk.max_tokens=256  chunk.overlap_tokens=0
    batch=256                       documents embedded and written at a time
    prune=true                      delete documents of the collection that the dataset lacks

An interrupted command is repeated: finished batches are kept, unchanged documents skipped. Then

    python run.py retriever=postgres estimator=uncertainty budget=tight

Exit code 0 done, 2 bad input, 1 a failing database, 130 interrupted.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from experiments.prepare.ingest import main

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("overrides", nargs="*", metavar="NAME=VALUE")
    sys.exit(main(parser.parse_args().overrides))
