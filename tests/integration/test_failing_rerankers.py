"""What a failing reranker may cost: never more than what it would have brought (rule F1), in nDCG@10."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from experiments.config.compose import compose
from experiments.replay.build import build_session, load_measures
from ragtune.core.interfaces import BaseReranker
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.context import RAGtuneContext
from ragtune.rerankers._wrapped import WrappedReranker

DATA = Path(__file__).parents[3] / "shared" / "data"
DL19, NFCORPUS = DATA / "dl19", DATA / "nfcorpus"

COLLECTIONS = {
    "demo": ["dataset=demo"],
    "dl19": [
        "dataset=beir",
        f"dataset.path={DL19}",
        "retriever=runs",
        f"retriever.paths={DL19}/runs/bm25.run",
        f"reranker.scores={DL19}/scores/monot5-base.run",
        "reranker.scale=log_prob",
    ],
    "nfcorpus": [
        "dataset=beir",
        f"dataset.path={NFCORPUS}",
        "retriever=runs",
        f"retriever.paths={NFCORPUS}/runs/bm25.run",
        f"reranker.scores={NFCORPUS}/scores/ce.run",
        "reranker.scale=identity",
    ],
}

POLICIES = {
    "one_shot": ["experiment=fixed_depth"],
    "uncertainty": ["experiment=uncertainty"],
}

RATES = [tenths / 10 for tenths in range(1, 11)]


class Flaky(WrappedReranker):
    """Fails a share of the batches, or of their documents; which ones depends on the query and the documents alone."""

    def __init__(self, inner: BaseReranker, rate: float, loses: str = "batches") -> None:
        super().__init__(inner)
        self._rate, self._loses = rate, loses

    def rerank(self, items: Sequence[PoolItem], context: RAGtuneContext, strategy: str) -> dict[str, float]:
        ids = [item.doc_id for item in items]
        if self._loses == "batches":
            if self._is_lost(context.query_id, *ids):
                raise ConnectionError("the server is gone")
            return self.inner.rerank(items, context, strategy)
        kept = [item for item in items if not self._is_lost(context.query_id, item.doc_id)]
        return self.inner.rerank(kept, context, strategy)

    def _is_lost(self, *what: str) -> bool:
        return random.Random("\x00".join(what)).random() < self._rate


def qualities(name: str, policy: str, rate: float, loses: str = "batches") -> tuple[float, ...]:
    """Mean nDCG@10 of the first stage, of the policy's order before its first batch, and of its answers."""
    config = compose([*COLLECTIONS[name], *POLICIES[policy], "tracking=none", "failures.requests_in_a_row=100000"])
    session = build_session(config, wrap=lambda inner: Flaky(inner, rate, loses))
    dataset = session.dataset
    rankings: list[dict[str, Sequence[str]]] = [{}, {}, {}]
    for query_id in dataset.judged:
        output = session.controller.run(dataset.queries[query_id], query_id=query_id)
        found = output.history[0].doc_ids, output.history[0].ranking, output.ranking
        for ranking, doc_ids in zip(rankings, found, strict=True):
            ranking[query_id] = doc_ids
    same = {query_id: query_id for query_id in dataset.judged}
    return tuple(float(load_measures(config).of_topics(each, same)[:, 0].mean()) for each in rankings)
