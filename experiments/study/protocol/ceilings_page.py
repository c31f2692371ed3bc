"""The best choice of ranks beside what a study claims, as a page of Markdown tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from experiments.config.compose import results_key
from experiments.evaluate.curves import FloatArray, bootstrap_interval
from experiments.publish.provenance import git_sha
from experiments.replay.build import Session
from experiments.replay.sessions import session_for
from experiments.study.grid import CollectionEntry, Grid
from experiments.study.protocol.ceilings import Ceiling, Pools, ceiling
from experiments.study.study import Claim
from ragtune.core.request.request import Request

_CLIP = 1e-12
"""Scores are kept this far from 0 and 1, so that their logits are finite, and told apart where fixed depth does."""

_IDEAL = 1.0 / np.log2(np.arange(2, 12))


@dataclass(frozen=True)
class _Row:
    """A collection of a claim: its pools, fixed depth's values at the claim's depth and budget, and the ceiling."""

    name: str
    pools: Pools
    full: FloatArray
    first: FloatArray
    best: Ceiling


def ceilings_page(grid: Grid, command: str) -> str:
    """For each claim about few documents against fixed depth at a depth of its own: what the best choice of so many
    ranks comes to on each of its collections.

    Args:
        grid: a study of budgets in documents, whose incumbent is fixed depth.
        command: the command that makes the page again.
    """
    claims = [claim for claim in grid.claims if isinstance(claim.depth, int) and claim.policy != grid.incumbent.name]
    return "\n".join([_head(grid, command), *(_table(grid, claim) for claim in claims)])


def _head(grid: Grid, command: str) -> str:
    return f"""# {grid.name}: what the best ranks would do

The same ranks are scored for every query. Which, and the share of the first stage in the final order, is chosen with
the judgments of the queries in the table, by greedy choice and exchanges (`experiments/study/protocol/ceilings.py`).
Documents of the same first-stage score are taken for copies: the scores of all are known when one is scored.
"None found": the best choice that was found lies below the line, with its whole interval. The search changes one or two
ranks at a time, so another choice could be better: this is evidence and no bound. Where documents have texts, a policy
that learns from them can do better than any fixed choice; where they have none, only if scores tell of neighbours.

- made by `{command}`
- code: `{git_sha()}`
- nDCG@10, differences from fixed depth at the depth of the claim; intervals: {grid.level:.0%}, {grid.resamples}
  bootstrap resamples of the queries, the choice held fixed; seed {grid.seed}
- elsewhere: the ranks chosen with the judgments of other queries of the collection, in five parts
- beyond: how many of the ranks lie beyond the budget
- copies: share of the documents that have one
- neighbours: correlation of the reranker's scores of documents next to each other, copies left aside; what rank and
  query explain is taken out, and 0 is expected if a score tells nothing of what stands beside it
"""


def _table(grid: Grid, claim: Claim) -> str:
    line = -claim.margin
    interval = partial(bootstrap_interval, resamples=grid.resamples, level=grid.level, seed=grid.seed)
    rows = sorted(_rows(grid, claim), key=lambda row: float((row.best.values - row.full).mean()))
    lines = [
        f"## {claim.name}\n",
        f"| collection | queries | fixed depth {claim.depth} | first {claim.budgets[0]} ranks | best ranks | elsewhere "
        "| beyond | copies | neighbours | |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---|",
    ]
    for row in rows:
        gain = row.best.values - row.full
        low, high = (float(end) for end in interval(gain))
        told = "**none found**" if high < line else "below, as measured" if gain.mean() < line else ""
        lines.append(
            f"| {row.name} | {len(gain)} | {row.full.mean():.3f} | {(row.first - row.full).mean():+.3f} "
            f"| {gain.mean():+.3f} [{low:+.3f}, {high:+.3f}] | {(row.best.elsewhere - row.full).mean():+.3f} "
            f"| {int(row.best.scored[int(claim.budgets[0]) :].sum())} | {_copied(row.pools):.0%} "
            f"| {_neighbours(row.pools):+.2f} | {told} |"
        )
    return "\n".join([*lines, ""])


def _rows(grid: Grid, claim: Claim) -> Iterator[_Row]:
    entries = {entry.name: entry for entry in grid.collections}
    budget = int(claim.budgets[0])
    for entry in (entry for entry in grid.collections if claim.is_about(entry.name, entry.plain)):
        pools = _pools(grid, entry)
        theirs = _pools(grid, entries[entry.plain]) if claim.plain else pools
        full, first = _fixed(theirs, int(claim.depth)), _fixed(pools, budget)
        yield _Row(entry.name, pools, full, first, ceiling(pools, budget))


def _fixed(pools: Pools, depth: int) -> FloatArray:
    return pools.values(np.arange(pools.scores.shape[1]) < depth)


def _pools(grid: Grid, entry: CollectionEntry) -> Pools:
    """The pools of all judged queries, each in the first stage's order."""
    session = session_for(results_key(grid.configuration(entry, grid.incumbent)))
    queries = [_pool(session, query_id) for query_id in session.dataset.judged]
    n = max(len(scores) for scores, _, _ in queries)
    pools = Pools(
        np.full((len(queries), n), -np.inf),
        np.zeros((len(queries), n)),
        np.repeat(np.eye(n, dtype=np.float32)[None], len(queries), axis=0),
    )
    for i, (scores, gains, found) in enumerate(queries):
        k = len(scores)
        pools.scores[i, :k], pools.gains[i, :k] = scores, gains
        pools.copies[i, :k, :k] = found[:, None] == found
    return pools


def _pool(session: Session, query_id: str) -> tuple[FloatArray, FloatArray, FloatArray]:
    """A query's logits, gains and first-stage scores, each of the shape of its pool."""
    pool, context = session.controller.begin(Request(session.dataset.queries[query_id], query_id))
    doc_ids = list(pool.doc_ids)
    reranker = next(iter(session.rerankers.values()))
    said = reranker.scores_of(doc_ids, context)
    clipped = np.clip([said[doc_id] for doc_id in doc_ids], _CLIP, 1.0 - _CLIP)
    logits = _standardised(np.log(clipped / (1.0 - clipped)))
    judged = session.dataset.qrels[query_id]
    ideal = sorted(judged.values(), reverse=True)[: len(_IDEAL)]
    gains = np.array([max(judged.get(doc_id, 0), 0) for doc_id in doc_ids]) / (ideal @ _IDEAL[: len(ideal)])
    return logits, gains, np.asarray(pool.base_scores)


def _standardised(values: FloatArray) -> FloatArray:
    return (values - values.mean()) / (values.std() or 1.0) if len(values) else values


def _copied(pools: Pools) -> float:
    real = np.isfinite(pools.scores)
    return float((pools.copies.sum(axis=2) > 1)[real].mean())


def _neighbours(pools: Pools) -> float:
    long = np.isfinite(pools.scores).sum(axis=1) > 1
    scores = np.where(np.isfinite(pools.scores), pools.scores, np.nan)[long]
    left = scores - np.nanmean(scores, axis=0)
    left -= np.nanmean(left, axis=1, keepdims=True)
    left /= np.nanstd(left, axis=1, keepdims=True)
    products = left[:, 1:] * left[:, :-1]
    apart = np.diagonal(pools.copies[long], offset=1, axis1=1, axis2=2) == 0
    return float(np.nanmean(products[apart]) + 1.0 / (scores.shape[1] - 1))
