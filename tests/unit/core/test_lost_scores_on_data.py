"""What lost scores cost on a real collection: the survivors change their own places, and on average for the better."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments.datasets.beir import read_qrels
from ragtune.core.pool.items import ItemState, PoolItem
from ragtune.core.pool.ordering import Ordering
from ragtune.core.pool.pool import CandidatePool
from ragtune.data.runs.runfile import read_run

DATA = Path(__file__).parents[4] / "shared" / "data" / "nfcorpus"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="needs ../shared/data/nfcorpus")
DISCOUNTS = 1 / np.log2(np.arange(2, 12))


def ndcg(grades: np.ndarray, ideal: float) -> float:
    top = grades[:10]
    return float((top * DISCOUNTS[: len(top)]).sum() / ideal) if ideal else 0.0


@pytest.fixture(scope="module")
def queries() -> list[tuple[np.ndarray, np.ndarray, float]]:
    """Grades and scores of each query's candidates, in the first stage's order, and its ideal gain."""
    qrels = read_qrels(DATA / "qrels" / "test.tsv")
    run, table = (read_run(DATA / name, needs_scores=True) for name in ("runs/bm25.run", "scores/ce.run"))
    found = []
    for query_id, judged in qrels.items():
        scores, known = dict(run.scores(query_id)), table.scores(query_id)
        candidates = sorted(scores, key=lambda doc_id, scores=scores: -scores[doc_id])[:100]
        best = np.sort([max(grade, 0) for grade in judged.values()])[::-1][:10]
        grades = np.array([max(judged.get(doc_id, 0), 0) for doc_id in candidates], dtype=float)
        found.append((grades, np.array([known[d] for d in candidates]), float((best * DISCOUNTS[: len(best)]).sum())))
    return found


def with_losses(scores: np.ndarray, survives: np.ndarray) -> np.ndarray:
    """The order where the survivors take the survivors' places by their scores, and nothing else moves."""
    order = np.arange(len(scores))
    kept = np.flatnonzero(survives)
    order[kept] = kept[np.argsort(-scores[kept], kind="stable")]
    return order


def test_lost_documents_stand_still_so_that_only_the_reranker_moves_the_survivors(queries) -> None:
    rng = np.random.default_rng(0)
    for _, scores, _ in queries[:40]:
        survives = rng.random(len(scores)) < 0.1
        unit = np.argsort(np.argsort(scores, kind="stable")) / len(scores)
        ids = [f"d{place:03d}" for place in range(len(scores))]
        pool = CandidatePool(PoolItem(doc_id=doc_id, initial_rank=place) for place, doc_id in enumerate(ids))
        pool.transition(ids, ItemState.IN_FLIGHT)
        pool.update_scores({ids[place]: float(unit[place]) for place in np.flatnonzero(survives)}, "x")
        pool.transition([ids[place] for place in np.flatnonzero(~survives)], ItemState.DROPPED)
        assert Ordering.RERANKED_FIRST.keys(pool).argsort().tolist() == with_losses(unit, survives).tolist()


@pytest.mark.parametrize("lost", [0.5, 0.8, 0.9, 0.95])
def test_what_the_survivors_change_is_no_loss_on_average_at_any_rate(queries, lost: float) -> None:
    """A single draw may be up to .005 below: the model's errors on the few documents that it scored."""
    first_stage = np.mean([ndcg(grades, ideal) for grades, _, ideal in queries])
    rng = np.random.default_rng(0)
    draws = [
        np.mean([ndcg(g[with_losses(s, rng.random(len(s)) >= lost)], ideal) for g, s, ideal in queries])
        for _ in range(100)
    ]
    assert np.mean(draws) >= first_stage
