"""Ingest a dataset into a collection of PostgreSQL, for ``retriever=postgres``.

    ragtune ingest dataset=demo store=postgres

Options are given as NAME=VALUE, as for ragtune run; conf/ingest.yaml lists them:

    dataset=demo|beir|irds          dataset.path=DIR ...
    store=postgres|memory           store.dsn=DSN (or RAGTUNE_DSN), else store.folder=DIR of the embedded server
    embedder=hashing|sentence_transformer|openai_compatible          embedder.model=... ...
    collection=NAME                 default: from the dataset's name and content
    chunk.method=tokens|sentences|paragraphs|markdown  chunk.max_tokens=256  chunk.overlap_tokens=0
    analyzer=NAME                   text analysis of lexical search: english, german, ..., cjk, none
    batch=256                       documents per batch of embedding and writing
    prune=true                      delete documents that are not in the dataset

After an interruption repeat the command: finished batches are kept, unchanged documents skipped. Then run

    ragtune run retriever=postgres estimator=uncertainty budget=tight

Exit code 0 done, 2 bad input, 1 a failing database, 130 interrupted.
"""

from __future__ import annotations

import argparse
import sys

from experiments.commands import add_overrides

KEPT = "finished batches are kept: repeat the command to go on"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Overrides of conf/ingest.yaml."""
    add_overrides(parser, "changes to conf/ingest.yaml", root="ingest")


def run(arguments: argparse.Namespace) -> int:
    """Ingest and print the counts."""
    from experiments.prepare.ingest import run as ingest

    sys.stdout.write(f"{ingest(arguments.overrides)}\n")
    return 0
