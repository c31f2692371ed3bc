"""python scripts/live_doubts.py DATA/cranfield ce 100: when the library doubts a reranker, query by query.

BM25's run and MiniLM's cosine are the sources, recorded scores stand for the reranker; judgments are not looked at.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from experiments.datasets.beir import BeirDataset
from ragtune import BudgetedReranker
from ragtune.core.errors import RagtuneError
from ragtune.data.runs.runfile import read_run
from ragtune.facade.doubts import Doubts


def main() -> int:
    """Print the doubts and what was seen, and return the exit code: 0 done, 2 bad input."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "folder", type=Path, help="BEIR folder with runs/bm25.run, scores/minilm.run and scores/NAME.run"
    )
    parser.add_argument("name", help="of the reranker, whose scores are scores/NAME.run")
    parser.add_argument("docs", type=int, help="documents reranked a query")
    parser.add_argument("--scale", default="identity", help="what the scores are: identity, logit, log_prob")
    arguments = parser.parse_args()
    try:
        _replay(arguments.folder, arguments.name, arguments.docs, arguments.scale)
    except (RagtuneError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


def _replay(folder: Path, name: str, docs: int, scale: str) -> None:
    corpus = BeirDataset(str(folder)).load().corpus
    first, minilm = read_run(folder / "runs" / "bm25.run"), read_run(folder / "scores" / "minilm.run")
    recorded, doubts, known = read_run(folder / "scores" / f"{name}.run"), Doubts(print), dict[str, float]()
    reranker = BudgetedReranker(
        lambda query, given: [known[text] for text in given], docs=docs, doubts=doubts, scale=scale
    )
    for query in first:
        bm25, cosines, scores = first.scores(query), minilm.scores(query), recorded.scores(query)
        shown = {f"{doc_id} {corpus[doc_id].content}": doc_id for doc_id in bm25 if doc_id in scores}
        known.update((text, scores[doc_id]) for text, doc_id in shown.items())
        column = {"bm25": [bm25[doc_id] for doc_id in shown.values()]}
        reranker.rank(query, list(shown), column, signals={"minilm": [cosines.get(i) for i in shown.values()]})
    for source, seen in doubts.evidence.items():
        print(f"{source}: {seen.mean:+.3f} over {seen.requests} requests, p = {seen.p:.3f}")


if __name__ == "__main__":
    sys.exit(main())
