"""Requests on recorded scores, as columns: what each policy and budget costs, loses by the model's scores and is worth.

``bench_certificate.py`` and ``bench_learn.py`` draw their streams from them.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from experiments.config.compose import compose
from experiments.evaluate.record import QueryRecord
from experiments.replay.build import session_for
from ragtune.core.arrays import FloatArray
from ragtune.core.statistics import gain_kept
from ragtune.rerankers.scale import ScoreScale, calibrated

BUDGETS = (0, 5, 10, 15, 20, 30, 40, 60, 80, 100)
POLICIES = ("uncertainty", "fixed_depth", "interpolated")
COLLECTIONS = {
    "nfcorpus": ("ce", "identity", None),
    "cranfield": ("minilm", "cosine", ("ce", "identity")),
    "cacm": ("minilm", "cosine", ("ce", "identity")),
    "dl19": ("monot5-base", "log_prob", None),
    "bright-biology": ("qwen-8b", "identity", ("monot5-3b", "log_prob")),
    "medquad-liveqa": ("minilm", "cosine", None),
    "cosqa": ("minilm", "cosine", None),
    "tcrag-zh": ("e5", "cosine", None),
    "jqara-a": ("ruri-reranker-large", "identity", ("bge-reranker-base", "logit")),
}
"""A good reranker of each collection, its scale, and a recorded one that hurts, where there is one."""

Scores = dict[str, dict[str, float]]


class Requests(NamedTuple):
    """Requests of one collection and one reranker: q queries, p policies, b budgets."""

    queries: list[str]
    documents: FloatArray  # shape (q,)
    docs: FloatArray  # shape (q, p, b), documents read
    loss: FloatArray  # shape (q, p, b), 1 - nDCG@10 by the model's own scores
    value: FloatArray  # shape (q, p, b), nDCG@10 by judgments
    unlike: FloatArray  # shape (q, p, b), share of the model's own top 10 that the answer's top 10 lacks
    stretched: FloatArray  # shape (q, p, b), the loss with each request's scores stretched to [0, 1]
    correlation: FloatArray  # shape (q, b), Spearman's, of scores of the policy's documents with the first stage
    prefix: FloatArray  # shape (q, b), of those of them before the first one that it has not read


def read_run(file: Path) -> Scores:
    found: Scores = {}
    for line in file.open(encoding="utf-8"):
        query, _, document, _, score, *_ = line.split()
        found.setdefault(query, {})[document] = float(score)
    return found


def harmful(scores: Scores, kind: str) -> Scores:
    """A made-up reranker that hurts: ``negated`` scores of each query, or the same scores in a ``random`` order."""
    draws = np.random.default_rng(0)
    found = {}
    for query, of_query in scores.items():
        values = np.array([*of_query.values()])
        order = np.argsort(values) if kind == "negated" else np.arange(len(values))
        swapped = values.copy()
        swapped[order] = values[order[::-1]] if kind == "negated" else draws.permutation(values)
        found[query] = dict(zip(of_query, swapped.tolist(), strict=True))
    return found


def requests_of(data: Path, name: str, table: str, scale: str, kind: str, folder: Path) -> Requests:
    """Replay a collection, once: the columns are kept in ``folder``."""
    file = folder / f"{name}-{table}-{kind}.npz"
    if file.exists():
        with np.load(file) as kept:
            return Requests(kept["queries"].tolist(), *(kept[one] for one in Requests._fields[1:]))
    source = data / name / "scores" / f"{table}.run"
    if kind != "recorded":
        made = folder / f"{name}-{table}-{kind}.run"
        with made.open("w", encoding="utf-8") as out:
            for query, of_query in harmful(read_run(source), kind).items():
                out.writelines(f"{query} Q0 {one} 0 {score!r} made\n" for one, score in of_query.items())
        source = made
    found = _replayed(data / name, source, scale)
    np.savez_compressed(file, **found._asdict())
    return found


def _replayed(folder: Path, scores_file: Path, scale: str) -> Requests:
    config = compose(
        [
            "dataset=beir", f"dataset.path={folder}", "retriever=runs", f"retriever.paths={folder}/runs/bm25.run",
            f"reranker.scores={scores_file}", f"reranker.scale={scale}", "experiment=uncertainty", "budget=unlimited",
            "vectors@estimator.vectors=candidates", "scheduler.batch_size=5", "tracking=none",
        ]
    )  # fmt: skip
    session, raw = session_for(config), read_run(scores_file)
    qrels, rows = session.dataset.qrels, []
    for query_id in session.dataset.judged:
        output = session.controller.run(session.dataset.queries[query_id], query_id=query_id)
        record = QueryRecord.of(output, traced=False)
        gained = {one: calibrated(raw[record.query_id][one], ScoreScale(scale)) for one in record.doc_ids}
        gains = {at: float(gained[one] or 0.0) for at, one in enumerate(record.doc_ids)}
        if len(gains) < 20:
            continue
        scores, first = np.array([*gains.values()]), np.argsort(record.rankings[0])
        grades = {at: float(max(0, qrels[record.query_id].get(one, 0))) for at, one in enumerate(record.doc_ids)}
        ideal = sorted((float(one) for one in qrels[record.query_id].values()), reverse=True)[:10]
        best = sum(max(0.0, one) / math.log2(at + 2) for at, one in enumerate(ideal)) or 1.0
        low, spread = scores.min(), np.ptp(scores) or 1.0
        stretch = {at: (gain - low) / spread for at, gain in gains.items()}
        top = set(np.lexsort((first, -scores))[:10].tolist())
        steps = np.array([step[0] for step in record.costs])
        row = []
        for policy in POLICIES:
            for budget in BUDGETS:
                order, docs = _order(policy, budget, record.rankings, steps, scores, first)
                worth = sum(grades[one] / math.log2(at + 2) for at, one in enumerate(order[:10])) / best
                lost = 1.0 - gain_kept(order, gains, 10), 1.0 - gain_kept(order, stretch, 10)
                row.append((docs, lost[0], worth, 1.0 - len(top & {*order[:10]}) / 10, lost[1]))
        ranked = np.array(record.rankings[0], dtype=int)
        agreed = []
        for budget in BUDGETS:
            at = int(np.searchsorted(steps, max(budget, 5), side="right")) - 1
            is_read = ~np.isnan(output.history[at].columns.scores)[ranked]
            depth = max(5, int(np.argmin([*is_read, False])))
            agreed.append((_spearman(scores[ranked[is_read]]), _spearman(scores[ranked[:depth]])))
        rows.append((record.query_id, len(gains), row, *zip(*agreed, strict=True)))
    cells = np.array([row[2] for row in rows]).reshape(len(rows), len(POLICIES), len(BUDGETS), 5)
    return Requests(
        [row[0] for row in rows],
        np.array([row[1] for row in rows], dtype=float),
        *np.moveaxis(cells, 3, 0),
        np.array([row[3] for row in rows]),
        np.array([row[4] for row in rows]),
    )


def _order(policy: str, budget: int, rankings, steps, scores: FloatArray, first):  # type: ignore[no-untyped-def]
    """The ranking under a budget, and the documents that it read."""
    if policy == "uncertainty":
        at = int(np.searchsorted(steps, budget, side="right")) - 1
        return [int(one) for one in rankings[at]], float(steps[at])
    read = first < budget
    weight = 0.2 if policy == "interpolated" and read.any() else 0.0
    keys = np.where(read, scores, -np.inf)
    if weight:
        chosen = scores[read]
        spread = chosen.std() or 1.0
        own, prior = (chosen - chosen.mean()) / spread, -first[read].astype(float)
        prior = (prior - prior.mean()) / (prior.std() or 1.0)
        keys[read] = (1.0 - weight) * own + weight * prior
    return np.lexsort((first, -keys)).tolist(), float(read.sum())


def _spearman(scores: FloatArray) -> float:
    """The rank correlation of scores in the first stage's order with that order; 0 where all are equal."""
    from scipy.stats import rankdata

    ranks = rankdata(-scores)
    spread = ranks.std()
    if not spread:
        return 0.0
    places = np.arange(len(scores), dtype=float)
    return float(np.mean((ranks - ranks.mean()) * (places - places.mean())) / (spread * places.std()))


def main() -> None:
    """Replay all of them: recorded_requests.py DATA FOLDER."""
    data, folder = map(Path, sys.argv[1:3])
    folder.mkdir(parents=True, exist_ok=True)
    for name, (table, scale, bad) in COLLECTIONS.items():
        wanted = [(table, scale, "recorded"), *([(*bad, "recorded")] if bad else [])]
        wanted += [(table, scale, kind) for kind in ("random", "negated")]
        for one in wanted:
            found = requests_of(data, name, *one, folder)
            print(name, *one, len(found.queries), found.value[:, 0].mean(axis=0).round(3), flush=True)


if __name__ == "__main__":
    main()
