"""python scripts/build_graph.py --out DIR [--kind tfidf|bm25|dense] [--k 16] OVERRIDES...: a corpus graph.

Writes the k nearest neighbours of every document of the configured dataset (``dataset=beir dataset.path=...``) to DIR,
for ``expander=corpus_graph expander.graph=DIR`` and for the graph-based estimators. A good graph that is already there
is kept. ``--query-terms`` belongs to bm25 (a document is asked for by its terms of highest tf * idf), ``--model`` to
dense (a local folder or a hub name).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from experiments.config.compose import compose
from experiments.prepare.graphs import KINDS, MINILM, build_graph
from experiments.publish.terminal import progress_bar
from experiments.replay.build import load_dataset
from ragtune.core.errors import RagtuneError


def main() -> int:
    """Build a graph, print what it has cost, and return the exit code: 0 done, 2 bad input, 130 interrupted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the graph's folder")
    parser.add_argument("--kind", choices=tuple(KINDS), default="tfidf")
    parser.add_argument("--k", type=int, default=16, help="neighbours of each document")
    parser.add_argument("--query-terms", type=int, default=32, help="bm25: terms that ask for a document's neighbours")
    parser.add_argument("--model", default=MINILM, help="dense: the sentence embedder")
    parser.add_argument("--force", action="store_true", help="replace a graph that is already there")
    given, overrides = parser.parse_known_args()
    try:
        corpus = load_dataset(compose(overrides)).corpus
        with progress_bar("building the graph", enabled=True) as update:
            cost = build_graph(
                corpus, given.out, update, given.kind, given.k, given.query_terms, given.model, given.force
            )
    except RagtuneError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; nothing was kept: repeat the command\n")
        return 130
    if cost.k < given.k:
        sys.stdout.write(f"--k {given.k}: a document has {cost.documents - 1:,} others, so k={cost.k} is stored\n")
    what = "built in" if cost.built else "kept what was there, checked in"
    sys.stdout.write(
        f"{given.out}: {cost.documents:,} documents, {cost.neighbours:,} neighbours, {what} {cost.seconds:.1f} s, "
        f"{cost.bytes:,} bytes\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
