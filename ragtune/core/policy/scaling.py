"""First-stage scores on one scale: those of rewrites on the original query's, those of a pool on the rerankers'."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ragtune.core.arrays import FloatArray
from ragtune.core.pool.pool import CandidatePool


def on_original_scale(original: Mapping[str, float], rewrite: Mapping[str, float], weight: float) -> dict[str, float]:
    """Scores of a rewrite's documents on the scale of the original query's list.

    Scores of two queries are not comparable (a longer query has larger BM25 sums), their ranks are. So the lists are
    fused by weighted reciprocal ranks, f(d) = 1 / rank in the original + ``weight`` / rank in the rewrite (a list that
    lacks d adds nothing; Cormack, Clarke and Buettcher, SIGIR 2009, with k = 0), and d gets the score that the original
    list has at rank 1 / f(d): interpolated between its neighbours, its lowest beyond its end.

    A rewrite lowers no document, and of the k best at most ``weight`` k are documents that it alone found, whatever it
    is about. Where the original list is empty, there is no scale but f itself.

    Args:
        original: ``{doc_id: score}`` of the original query, any scale; equal scores rank in the order given.
        rewrite: ``{doc_id: score}`` of the rewrite, any scale; equal scores rank in the order given.
        weight: weight of the rewrite, in (0, 1]; that of the original query is 1.
    """
    ranks = {doc_id: rank for rank, doc_id in enumerate(_best_first(original), start=1)}
    fused = {
        doc_id: weight / rank + (1.0 / ranks[doc_id] if doc_id in ranks else 0.0)
        for rank, doc_id in enumerate(_best_first(rewrite), start=1)
    }
    if not original:
        return fused
    curve = sorted(original.values(), reverse=True)
    scores = np.interp([1.0 / f for f in fused.values()], np.arange(1, len(curve) + 1), curve)
    return dict(zip(fused, scores.tolist(), strict=True))


def _best_first(scores: Mapping[str, float]) -> list[str]:
    return sorted(scores, key=lambda doc_id: -scores[doc_id])


def first_stage_scores(pool: CandidatePool) -> FloatArray:
    """The pool's retrieval scores in [0, 1], shape (n,), closed for writing.

    First-stage scores are min-max scaled. The score of a document that an expander found is on the rerankers' scale
    already and is only clipped, so growth changes no earlier document's value.
    """
    return pool.roster.first_stage_scores
