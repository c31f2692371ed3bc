"""Scores and ranking keys: first-stage scores on one scale, the top-k threshold, documents of the same text."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from math import erfc

import numpy as np

from ragtune.core.arrays import FloatArray
from ragtune.core.hits import Entries
from ragtune.core.pool.columns import squarable
from ragtune.core.pool.items import PoolItem
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.request.context import first_stage_of


def on_original_scale(original: Mapping[str, float], rewrite: Mapping[str, float], weight: float) -> dict[str, float]:
    """Scores of a rewrite's documents on the scale of the original query's list.

    Both lists are fused by f(d) = 1 / rank in the original + ``weight`` / rank in the rewrite (Cormack et al., SIGIR
    2009, with k = 0); d gets the original list's score at rank 1 / f(d), interpolated, or f where that is empty.
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


def scores_by_stage(items: Sequence[PoolItem]) -> dict[str, FloatArray]:
    """The best scores by first stage, rewrites included, each of shape (n,), NaN where it did not find the document."""
    if isinstance(items, Entries) and items.views is not None:
        return {first_stage_of(name): view for name, view in items.views.items()}
    views: dict[str, FloatArray] = {}
    for name in dict.fromkeys(name for item in items for name in item.sources):
        view = np.array([item.sources.get(name, np.nan) for item in items], dtype=float)
        stage = first_stage_of(name)
        views[stage] = np.fmax(views[stage], view) if stage in views else view
    return views


def logits(scores: FloatArray, cut: float = 1e-6) -> FloatArray:
    """ln(s / (1 - s)) of scores in [0, 1], which are kept ``cut`` from 0 and 1, so that all are finite."""
    clipped = np.clip(scores, cut, 1.0 - cut)
    return np.log(clipped / (1.0 - clipped))


def standardised(values: FloatArray) -> FloatArray:
    """Zero mean, unit standard deviation; all zeros where the values do not differ."""
    values = squarable(values)
    centred: FloatArray = values - values.mean()
    deviation = float(np.sqrt((centred * centred).mean()))  # values.std(), which takes the mean once more
    return centred / deviation if deviation > 1e-9 else np.zeros_like(values)


def rank_correlation(one: FloatArray, other: FloatArray) -> float:
    """Spearman's, of two arrays of shape (k,), in [-1, 1]; 0 where one of them does not vary."""
    return float(standardised(_ranks(one)) @ standardised(_ranks(other))) / len(one) if len(one) else 0.0


def _ranks(values: FloatArray) -> FloatArray:
    """Ranks from 1, ascending; equal values share the mean of theirs."""
    ordered = np.sort(values)
    return (ordered.searchsorted(values, "left") + ordered.searchsorted(values, "right") + 1) / 2.0


def top_k_threshold(keys: FloatArray, k: int) -> float:
    """Halfway between ranks k and k + 1 of ``keys``, shape (n,), in O(n); the median where n is at most k, or 0."""
    if len(keys) <= k:
        return float(np.median(keys)) if len(keys) else 0.0
    parted = np.partition(keys, (len(keys) - k - 1, len(keys) - k))
    return float(parted[len(keys) - k] + parted[len(keys) - k - 1]) / 2.0


def tail(z: FloatArray) -> FloatArray:
    """P(Z > z) of a standard normal."""
    return np.array([0.5 * erfc(value / np.sqrt(2.0)) for value in np.asarray(z, dtype=float)])


def with_twins_level(keys: FloatArray, pool: CandidatePool, *, compared: bool = False) -> FloatArray:
    """Ranking keys in which scored documents of the same text (and score, unless compared) share the largest."""
    scored = pool.reranked
    scores: list[float] = [0.0] * len(scored) if compared else pool.scores[scored].tolist()
    if len(set(scores)) == len(scores):
        return keys
    counts = Counter(scores)
    alike: dict[tuple[float, str], list[int]] = defaultdict(list)
    for position, score in zip(scored.tolist(), scores, strict=True):
        if counts[score] > 1 and (text := pool.entries[position].content):
            alike[score, text].append(position)
    level = keys.copy()
    for twins in alike.values():
        level[twins] = keys[twins].max()
    return level
