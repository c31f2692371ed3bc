"""What was reranked for a query, and why is a document where it is?

Replays one query of a finished run from its recorded scores, and prints which source found the document, what was
expected of it after each batch, when it was scored or why not, and what a score would have cost. Without a document,
it prints the batches of the query: how many documents, why, and what was paid.

    ragtune explain RUN QUERY DOCUMENT
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("run", metavar="RUN", help="folder or MLflow run id")
    parser.add_argument("query", metavar="QUERY", help="id of a query")
    parser.add_argument("document", metavar="DOCUMENT", nargs="?", help="id of a document; default: all batches")


def run(arguments: argparse.Namespace) -> int:
    """Print the explanation."""
    from experiments.compare.explain import explained
    from experiments.compare.runs import find_runs

    with tempfile.TemporaryDirectory() as downloads:
        (found,) = find_runs([arguments.run], Path(downloads))
        for line in explained(found, arguments.query, arguments.document):
            print(line)
    return 0
