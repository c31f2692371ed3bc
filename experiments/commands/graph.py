"""Build a corpus graph: the k nearest neighbours of every document of a dataset.

    ragtune graph --out DIR --k 16 dataset=beir dataset.path=../shared/data/nfcorpus
    ragtune graph --out DIR --kind dense --model MODEL dataset=demo

The graph in DIR is for ``expander=corpus_graph expander.graph=DIR`` and for the graph-based estimators. DIR must
not exist. ``--model`` is for dense: a local folder or a hub name.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from experiments.commands import add_overrides
from ragtune.cli.dispatch import refuse

KEPT = "nothing was kept: repeat the command"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("--out", type=Path, required=True, help="the graph's folder")
    parser.add_argument("--kind", choices=("tfidf", "dense"), default="tfidf", help="similarity")
    parser.add_argument("--k", type=int, default=16, help="neighbours of each document")
    parser.add_argument("--model", help="dense: the sentence embedder; default: all-MiniLM-L6-v2")
    add_overrides(parser, "the dataset, as for ragtune run")


def run(arguments: argparse.Namespace) -> int:
    """Build a graph and print what it has cost."""
    from experiments.config.compose import compose
    from experiments.prepare.graphs import MINILM, build_graph
    from experiments.publish.progress import progress_bar
    from experiments.replay.build import load_dataset

    if arguments.kind != "dense":
        refuse(arguments, ["model"], "with --kind dense only")
    corpus = load_dataset(compose(arguments.overrides)).corpus
    with progress_bar("building the graph", enabled=True) as update:
        cost = build_graph(corpus, arguments.out, update, arguments.kind, arguments.k, arguments.model or MINILM)
    if cost.k < arguments.k:
        others = cost.documents - 1
        sys.stdout.write(f"--k {arguments.k}: a document has {others:,} others, so k={cost.k} is stored\n")
    sys.stdout.write(
        f"{arguments.out}: {cost.documents:,} documents, {cost.neighbours:,} neighbours, "
        f"built in {cost.seconds:.1f} s, {cost.bytes:,} bytes\n"
    )
    return 0
